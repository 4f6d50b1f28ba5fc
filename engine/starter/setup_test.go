package starter

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/setup"
	"shuultuur/engine"
	"shuultuur/intercept"
)

// TestFirstStepsWriteSettingsThatStart tests combinations of answers: the
// resulting settings must be usable and contain the choices.
func TestFirstStepsWriteSettingsThatStart(t *testing.T) {
	everything := []string{}
	for _, x := range Topics() {
		everything = append(everything, x.Name)
		if x.Optional != (x.Name == "pastime") {
			t.Errorf("topic %q is chosen at first: %v", x.Name, !x.Optional)
		}
		if x.Name != "words" && x.Name != "drugs" && x.Name != "pastime" && (len(x.Lists) == 0 || x.Lists[0].Licence == "" || x.Lists[0].Size == "") {
			t.Errorf("topic %q has the lists %+v", x.Name, x.Lists)
		}
	}
	for _, c := range []struct {
		name          string
		a             setup.Answers
		with, without []string
	}{
		{"all at home", setup.Answers{Who: "home", Topics: everything, Proxy: true, DNS: true, SafeSearch: true}, []string{"name: gambling, action: warn", "8053", "name: ads, action: block", "name: pastime, action: block", "Those with a path"}, []string{"decrypt"}},
		{"a school's network", setup.Answers{Who: "school", Topics: everything, Proxy: true, DNS: true, At: netip.MustParseAddr("192.168.1.20"), Contact: `the "librarian": desk 3`, Name: "School 5", Children: true, SafeSearch: true, Portal: 80, Upstreams: []netip.Addr{netip.MustParseAddr("192.168.1.1")}}, []string{"name: gambling, action: block", `"192.168.1.20:53"`, `proxy: [127.0.0.1:8080, "192.168.1.20:8080"]`, `admin: [127.0.0.1:8081, "192.168.1.20:8443"]`, `portal: "192.168.1.20:80"`, `forward: {upstreams: ["192.168.1.1"]}`, `name: "School 5"`, "children: everyone", "intercept: {root: root.pem}", `\"librarian\"`, "safesearch: true"}, []string{"decrypt"}},
		{"ads alone, by proxy", setup.Answers{Who: "company", Topics: []string{"ads"}, Proxy: true}, []string{"own-ads", "safesearch: false", "name: ads"}, []string{"gambling", "adult", "dns:", "bad words", "malware", "doh"}},
		{"nothing", setup.Answers{Who: "company", DNS: true}, []string{"learning", "8053"}, []string{"action: block", "action: warn"}},
		{"by name", setup.Answers{Who: "home", Topics: []string{"harmful", "words"}, DNS: true, At: netip.MustParseAddr("192.168.1.20")}, []string{"phishing", `"192.168.1.20:53"`, "proxy: 127.0.0.1:8080", "unread-other, phrase-error"}, []string{"easylist", "pastime", "tunnel/"}},
		{"a company", setup.Answers{Who: "company", Topics: []string{"bypass"}, Proxy: true}, []string{"name: other protocols, action: monitor"}, nil},
		{"children with devices", setup.Answers{Who: "home", Topics: everything, DNS: true, Proxy: true, SafeSearch: true, Children: true, People: []setup.Person{{Name: "Anna", Addr: netip.MustParseAddr("192.168.1.31"), Child: true}, {Name: `O"na: x`, Addr: netip.MustParseAddr("192.168.1.32")}, {Name: "Anna", Addr: netip.MustParseAddr("192.168.1.33"), Child: true}}},
			[]string{`"Anna": ["192.168.1.31", "192.168.1.33"]`, `children: ["Anna"]`, "children: children", "gambling for children, action: block", "base: everyone"}, []string{"children: everyone"}},
		{"children without a rule of their own", setup.Answers{Who: "home", DNS: true, People: []setup.Person{{Name: "Anna", Addr: netip.MustParseAddr("192.168.1.31"), Child: true}}}, []string{"rules: []"}, nil},
		{"encrypted pages too", setup.Answers{Who: "school", Topics: everything, Proxy: true, DNS: true, Certificate: true}, []string{"decrypt: true", "intercept: {root: root.pem}"}, nil},
	} {
		dir := t.TempDir()
		if err := Write(dir); err != nil {
			t.Fatal(err)
		}
		root, err := intercept.NewRoot(intercept.RootConfig{})
		if err == nil {
			err = root.Write(filepath.Join(dir, "root.pem"), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		text := Compose(Settings(), c.a)
		for _, want := range c.with {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the settings lack %q:\n%s", c.name, want, text)
			}
		}
		// Comments are those of the starter settings.
		var plain strings.Builder
		for line := range strings.Lines(string(text)) {
			if code, _, _ := strings.Cut(line, "#"); strings.TrimSpace(code) != "" && !strings.Contains(code, "weighted: ") {
				plain.WriteString(code + "\n")
			}
		}
		for _, no := range c.without {
			if strings.Contains(plain.String(), no) {
				t.Errorf("%s: the settings have %q:\n%s", c.name, no, text)
			}
		}
		file := filepath.Join(dir, "shuultuur.yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		_, done, err := engine.Explain(t.Context(), file)
		if err != nil {
			t.Errorf("%s: checking the settings: %v\n%s", c.name, err, text)
			continue
		}
		done()
	}
}

func TestSettingsAreThoseOfTheStart(t *testing.T) {
	start := string(Settings())
	for text, want := range map[string]bool{
		start: true,
		strings.Replace(start, "data: ./data ", `data: "/var/lib/shuultuur" `, 1): true,
		strings.Replace(start, "action: warn", "action: block", 1):                false,
		"": false,
	} {
		if got := IsUnchanged([]byte(text)); got != want {
			t.Errorf("settings of %d bytes are unchanged: %v, want %v", len(text), got, want)
		}
	}
}
