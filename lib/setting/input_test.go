package setting

import (
	"slices"
	"testing"
)

// TestInputsAreTheKeysOfAForm: groups are taken apart, and each key has the kind of its type.
func TestInputsAreTheKeysOfAForm(t *testing.T) {
	type group struct {
		Wait Duration `yaml:"wait"`
		Big  Size     `yaml:"big"`
		Most Count    `yaml:"most"`
	}
	type all struct {
		On    bool              `yaml:"on"`
		Ports OneOrMore[int]    `yaml:"ports"`
		Names OneOrMore[string] `yaml:"names"`
		Group *group            `yaml:"group" role:"owner"`
		Map   map[string]string `yaml:"map"`
		List  []group           `yaml:"list"`
		Word  string            `yaml:"word" secret:"yes"`
	}
	want := []string{"on switch", "ports lines", "names lines", "group.wait time", "group.big size", "group.most count", "map yaml", "list yaml", "word line"}
	var got []string
	for _, in := range Inputs(&all{}) {
		got = append(got, in.Path+" "+in.Kind)
		if in.Path == "ports" && !in.Number || in.Path == "group.wait" && in.Role != "owner" || in.Path == "word" && in.Secret != "yes" {
			t.Errorf("%s: number %v, role %q, secret %q", in.Path, in.Number, in.Role, in.Secret)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestACopyHasValuesAsWritten: also of a text whose values no part would take.
func TestACopyHasValuesAsWritten(t *testing.T) {
	c, err := CopyOf("x.yaml", []byte("# first\na: 010\nb: [x, 1]\nc: {d: nonsense}\ne:\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path  string
		want  []string
		plain bool
		line  int
	}{
		{"a", []string{"010"}, true, 2}, {"b", []string{"x", "1"}, true, 3}, {"c", nil, false, 4}, {"c.d", []string{"nonsense"}, true, 4},
		{"e", nil, true, 5}, {"f", nil, true, 0}, {"c.f", nil, true, 0}, {"a.b", nil, true, 0},
	} {
		if got, plain := c.Values(tt.path); !slices.Equal(got, tt.want) || plain != tt.plain || c.Line(tt.path) != tt.line {
			t.Errorf("%s: got %q, %v in line %d; want %q, %v in line %d", tt.path, got, plain, c.Line(tt.path), tt.want, tt.plain, tt.line)
		}
	}
	if _, err := CopyOf("x.yaml", []byte("a: [")); err == nil {
		t.Error("a text that is no YAML has a copy")
	}
	if c, err := CopyOf("x.yaml", nil); err != nil || c.Has("a") {
		t.Errorf("an empty text: %v", err)
	}
}
