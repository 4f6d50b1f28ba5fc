package starter

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/setup"
	"shuultuur/list/source"
	"shuultuur/text"
)

// topics are the topics that the first steps ask about. A topic has one or more
// categories of the starter settings.
var topics = []struct {
	name, icon, what string
	categories       []string
}{
	{"ads", "ads", text.Mark("Ads and tracking"), []string{"ads", "tracking"}},
	{"harmful", "bug", text.Mark("Malware and phishing"), []string{"malware", "phishing"}},
	{"adult", "adult", text.Mark("Pornography"), []string{"adult"}},
	{"gambling", "dice", text.Mark("Gambling"), []string{"gambling"}},
	{"drugs", "hand", text.Mark("Drugs and weapons"), []string{"drugs", "weapons"}},
	{"pastime", "game", text.Mark("Games, social networks, video and dating"), []string{"games", "social", "video", "dating"}},
	{"words", "words", text.Mark("Bad words on pages"), []string{"phrase", "bannedphrase"}},
	{"bypass", "tunnel", text.Mark("Ways around the filter: proxies, VPN and encrypted names"), []string{"doh", "proxies", "around/bare", "around/wisp", "around/tunnel", "around/doh", "around/dns", "around/rewriter", "tunnel/ssh", "tunnel/vpn", "tunnel/unknown"}},
}

var (
	listLine  = regexp.MustCompile(`^  ([a-z-]+): +\{(?:source: ([a-z0-9-]+)|.*), category: ([a-z]+)\}$`)
	ruleLine  = regexp.MustCompile(`^      - \{name: .*, category: \[([^\]]*)\]`)
	listNames = regexp.MustCompile(`^    lists: \[([^\]]*)\]`)
)

// Topics returns the topics with the lists that the starter settings fetch for them.
func Topics() []setup.Topic {
	text := string(Settings())
	known := map[string]source.CatalogueEntry{}
	for _, k := range source.Catalogue() {
		known[k.Name] = k
	}
	var all []setup.Topic
	for _, t := range topics {
		x := setup.Topic{Name: t.name, What: t.what, Icon: t.icon, Optional: t.name == "pastime"}
		for line := range strings.Lines(text) {
			if m := listLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && m[2] != "" && slices.Contains(t.categories, m[3]) {
				k := known[m[2]]
				x.Lists = append(x.Lists, setup.TopicList{Name: m[2], What: k.What, Size: k.Size, Licence: k.Licence})
			}
		}
		all = append(all, x)
	}
	return all
}

// Compose returns the starter settings without the parts that the answers exclude.
func Compose(starter []byte, a setup.Answers) []byte {
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
func changed(line string, a setup.Answers) string {
	switch {
	case strings.HasPrefix(line, "listen: ") && a.At.IsValid():
		return listening(line, a)
	case strings.HasPrefix(line, "  listen: [") && a.At.IsValid():
		line = strings.Replace(line, "]", fmt.Sprintf(", %q]", netip.AddrPortFrom(a.At, 53)), 1)
	case strings.HasPrefix(line, "  # forward:") && len(a.Upstreams) > 0:
		var all []string
		for _, u := range a.Upstreams {
			all = append(all, strconv.Quote(u.String()))
		}
		line = "  forward: {upstreams: [" + strings.Join(all, ", ") + "]}"
	case strings.HasPrefix(line, "pages: "):
		line = pages(line, a)
	case strings.HasPrefix(line, "      - {name: other protocols,") && a.Who == "company":
		line = strings.Replace(line, "action: block", "action: monitor", 1)
	case line == "    safesearch: true" && !a.SafeSearch:
		line = "    safesearch: false"
	case strings.HasPrefix(line, "  - name: everyone"):
		line = children(a) + line
		if a.Certificate {
			line += "\n    decrypt: true"
		}
	case strings.HasPrefix(line, "policies:"):
		line = people(a) + line
		if a.Certificate || a.At.IsValid() {
			line = "intercept: {root: root.pem}       # made for this network; root-key.pem is its key\n\n" + line
		}
	}
	return line
}

// PagesPort is where other machines reach the pages of administrators.
const PagesPort = 8443

// listening returns the line of the addresses: this machine keeps its own, and the network has one more
// of each.
func listening(line string, a setup.Answers) string {
	proxy, admin, portal := "127.0.0.1:8080", "127.0.0.1:8081", ""
	if a.Proxy {
		proxy = fmt.Sprintf("[%s, %q]", proxy, netip.AddrPortFrom(a.At, 8080))
	}
	admin = fmt.Sprintf("[%s, %q]", admin, netip.AddrPortFrom(a.At, PagesPort))
	if a.Portal != 0 {
		portal = fmt.Sprintf(", portal: %q", netip.AddrPortFrom(a.At, a.Portal))
	}
	_, comment, _ := strings.Cut(line, "}")
	return "listen: {proxy: " + proxy + ", admin: " + admin + portal + "}" + comment
}

// ofChildren is the name of the policy and the group of children whose devices are known.
const ofChildren = "children"

func haveDevices(a setup.Answers) bool {
	return slices.ContainsFunc(a.People, func(p setup.Person) bool { return p.Child })
}

// pages returns the line about the pages that people meet.
func pages(line string, a setup.Answers) string {
	var all []string
	add := func(key, value string) {
		if value != "" {
			all = append(all, key+": "+strconv.Quote(strings.ToValidUTF8(value, "")))
		}
	}
	add("name", a.Name)
	add("contact", a.Contact)
	switch {
	case haveDevices(a):
		all = append(all, "children: "+ofChildren)
	case a.Children:
		all = append(all, "children: everyone")
	}
	if a.Contact == "" {
		_, contact, _ := strings.Cut(strings.TrimSuffix(line, "}"), "{")
		all = append(all, contact)
	}
	return "pages: {" + strings.Join(all, ", ") + "}"
}

// people returns who has which device.
func people(a setup.Answers) string {
	if len(a.People) == 0 {
		return ""
	}
	devices, names, children := map[string][]string{}, []string{}, []string{}
	for _, p := range a.People {
		if devices[p.Name] == nil {
			names = append(names, p.Name)
		}
		devices[p.Name] = append(devices[p.Name], strconv.Quote(p.Addr.String()))
		if quoted := strconv.Quote(p.Name); p.Child && !slices.Contains(children, quoted) {
			children = append(children, quoted)
		}
	}
	text := "identity:\n  addresses:\n"
	for _, n := range names {
		text += "    " + strconv.Quote(n) + ": [" + strings.Join(devices[n], ", ") + "]\n"
	}
	if len(children) > 0 {
		text += "  groups:\n    " + ofChildren + ": [" + strings.Join(children, ", ") + "]\n"
	}
	return text + "\n"
}

// children returns the policy of children whose devices are known: what warns others is closed for them.
func children(a setup.Answers) string {
	if !haveDevices(a) {
		return ""
	}
	rules := " []"
	if slices.Contains(a.Topics, "gambling") && a.Who == "home" {
		rules = "\n      - {name: gambling for children, action: block, category: [gambling]}"
	}
	return "  - name: " + ofChildren + "\n    groups: [" + ofChildren + "]\n    base: everyone           # its rules follow these\n    rules:" + rules + "\n"
}

// IsUnchanged reports whether settings are those of [Settings], wherever their data is.
func IsUnchanged(now []byte) bool {
	return bytes.Equal(withoutData(now), withoutData(Settings()))
}

var dataLine = regexp.MustCompile(`(?m)^data: .*$`)

func withoutData(text []byte) []byte { return dataLine.ReplaceAll(text, nil) }
