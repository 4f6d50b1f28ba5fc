package starter

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/home"
	"shuultuur/list/source"
	"shuultuur/text"
)

// topics are the topics that the first steps ask about. A topic has one or more
// categories of the starter settings.
var topics = []struct {
	name, what string
	categories []string
}{
	{"ads", text.Mark("Ads and tracking"), []string{"ads", "tracking"}},
	{"harmful", text.Mark("Malware and phishing"), []string{"malware", "phishing"}},
	{"adult", text.Mark("Pornography"), []string{"adult"}},
	{"gambling", text.Mark("Gambling"), []string{"gambling"}},
	{"drugs", text.Mark("Drugs and weapons"), []string{"drugs", "weapons"}},
	{"pastime", text.Mark("Games, social networks, video and dating"), []string{"games", "social", "video", "dating"}},
	{"words", text.Mark("Bad words on pages"), []string{"phrase", "bannedphrase"}},
	{"bypass", text.Mark("Ways around the filter: proxies, VPN and encrypted names"), []string{"doh", "proxies", "around/bare", "around/wisp", "around/tunnel", "around/doh", "tunnel/ssh", "tunnel/vpn", "tunnel/unknown"}},
}

var (
	listLine  = regexp.MustCompile(`^  ([a-z-]+): +\{(?:source: ([a-z0-9-]+)|.*), category: ([a-z]+)\}$`)
	ruleLine  = regexp.MustCompile(`^      - \{name: .*, category: \[([^\]]*)\]`)
	listNames = regexp.MustCompile(`^    lists: \[([^\]]*)\]`)
)

// Topics returns the topics with the lists that the starter settings fetch for them.
func Topics() []home.Topic {
	text := string(Settings())
	known := map[string]source.CatalogueEntry{}
	for _, k := range source.Catalogue() {
		known[k.Name] = k
	}
	var all []home.Topic
	for _, t := range topics {
		x := home.Topic{Name: t.name, What: t.what, Optional: t.name == "pastime"}
		for line := range strings.Lines(text) {
			if m := listLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && m[2] != "" && slices.Contains(t.categories, m[3]) {
				k := known[m[2]]
				x.Lists = append(x.Lists, home.TopicList{Name: m[2], What: k.What, Size: k.Size, Licence: k.Licence})
			}
		}
		all = append(all, x)
	}
	return all
}

// Compose returns the starter settings without the parts that the answers exclude.
func Compose(starter []byte, a home.Answers) []byte {
	without := map[string]bool{}
	for _, t := range topics {
		if !slices.Contains(a.Topics, t.name) {
			for _, c := range t.categories {
				without[c] = true
			}
		}
	}
	gone := map[string]bool{} // lists
	var out bytes.Buffer
	for line := range strings.Lines(string(starter)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "# A name server") && !a.DNS {
			break
		}
		if m := listLine.FindStringSubmatch(line); m != nil && without[m[3]] {
			gone[m[1]] = true
			continue
		}
		if m := listNames.FindStringSubmatch(line); m != nil {
			line = "    lists: [" + strings.Join(slices.DeleteFunc(strings.Split(m[1], ", "), func(n string) bool { return gone[n] }), ", ") + "]"
		}
		if m := ruleLine.FindStringSubmatch(line); m != nil {
			if !slices.ContainsFunc(strings.Split(m[1], ", "), func(c string) bool {
				return !without[c] && c != "phrase-error" && (!strings.HasPrefix(c, "unread") || !without["phrase"])
			}) {
				continue
			}
			line = strings.Replace(line, "name: pastime, action: monitor", "name: pastime, action: block", 1)
			if a.Who != "home" {
				line = strings.Replace(line, "name: gambling, action: warn", "name: gambling, action: block", 1)
			}
		}
		line = changed(line, a)
		out.WriteString(line + "\n")
	}
	text := bytes.TrimRight(out.Bytes(), "\n")
	return append(text, '\n')
}

// changed returns a line of the starter settings, adapted to the answers.
func changed(line string, a home.Answers) string {
	switch {
	case strings.HasPrefix(line, "listen: ") && a.Network && a.Proxy:
		return strings.Replace(line, "proxy: 127.0.0.1:8080", `proxy: "0.0.0.0:8080"`, 1)
	case strings.HasPrefix(line, "  listen: [") && a.Network:
		return `  listen: ["0.0.0.0:53"]`
	case strings.HasPrefix(line, "pages: ") && a.Contact != "":
		line = "pages: {contact: " + strconv.Quote(strings.ToValidUTF8(a.Contact, "")) + "}"
	case strings.HasPrefix(line, "      - {name: other protocols,") && a.Who == "company":
		line = strings.Replace(line, "action: block", "action: monitor", 1)
	case line == "    safesearch: true" && a.Who == "company":
		line = "    safesearch: false"
	case strings.HasPrefix(line, "  - name: everyone") && a.Certificate:
		line += "\n    decrypt: true"
	case strings.HasPrefix(line, "policies:") && a.Certificate:
		line = "intercept: {root: root.pem}       # made for this network; root-key.pem is its key\n\n" + line
	}
	return line
}

// Steps returns steps for trying the new settings.
func Steps(a home.Answers, proxy, dns string) (all []string) {
	if a.Proxy {
		all = append(all, fmt.Sprintf("Name %s as the HTTP proxy of a browser, and open a page that is to be blocked.", proxy))
	}
	if a.DNS {
		all = append(all, fmt.Sprintf("Name %s as the name server of a device or of the router.", dns))
	}
	return append(all, "Watch the record: each request appears there as it comes.")
}
