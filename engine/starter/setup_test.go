package starter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/home"
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
		a             home.Answers
		with, without []string
	}{
		{"all at home", home.Answers{Who: "home", Topics: everything, Proxy: true, DNS: true}, []string{"name: gambling, action: warn", "8053", "name: ads, action: block", "name: pastime, action: block", "Those with a path"}, []string{"decrypt"}},
		{"a school's network", home.Answers{Who: "school", Topics: everything, Proxy: true, DNS: true, Network: true, Contact: `the "librarian": desk 3`}, []string{"name: gambling, action: block", "0.0.0.0:53", "0.0.0.0:8080", `\"librarian\"`, "safesearch: true"}, []string{"127.0.0.1:8080"}},
		{"ads alone, by proxy", home.Answers{Who: "company", Topics: []string{"ads"}, Proxy: true}, []string{"own-ads", "safesearch: false", "name: ads"}, []string{"gambling", "adult", "dns:", "bad words", "malware", "doh"}},
		{"nothing", home.Answers{Who: "company", DNS: true}, []string{"learning", "8053"}, []string{"action: block", "action: warn"}},
		{"by name", home.Answers{Who: "home", Topics: []string{"harmful", "words"}, DNS: true, Network: true}, []string{"phishing", "0.0.0.0:53", "proxy: 127.0.0.1:8080", "unread-other, phrase-error"}, []string{"easylist", "pastime", "tunnel/"}},
		{"a company", home.Answers{Who: "company", Topics: []string{"bypass"}, Proxy: true}, []string{"name: other protocols, action: monitor"}, nil},
		{"encrypted pages too", home.Answers{Who: "school", Topics: everything, Proxy: true, DNS: true, Certificate: true}, []string{"decrypt: true", "intercept: {root: root.pem}"}, nil},
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
