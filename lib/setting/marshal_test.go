package setting

import (
	"net/netip"
	"testing"
	"time"
)

func TestSettingsAreWrittenAsTheyAreRead(t *testing.T) {
	type Inner struct {
		Hosts map[string][]string `yaml:"hosts"`
		On    *bool               `yaml:"on"`
	}
	type group struct {
		Inner  `yaml:",inline"`
		Name   string            `yaml:"name"`
		Every  Duration          `yaml:"every"`
		Size   Size              `yaml:"size"`
		Count  Count             `yaml:"count"`
		Listen OneOrMore[string] `yaml:"listen"`
		Admin  OneOrMore[string] `yaml:"admin"`
		Nets   []netip.Prefix    `yaml:"nets"`
		Rules  []Inner           `yaml:"rules"`
		Sub    *Inner            `yaml:"sub"`
		Hidden string            `yaml:"-"`
	}
	no := false
	v := group{
		Inner: Inner{Hosts: map[string][]string{"b": {"1"}, "a.b": {}}, On: &no}, Name: "off", Every: Duration(90 * time.Minute), Size: 16 << 20, Count: -1,
		Listen: OneOrMore[string]{":1"}, Admin: OneOrMore[string]{}, Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Rules: []Inner{{On: &no}}, Hidden: "x",
	}
	text, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	const want = `hosts:
    a.b: []
    b: ["1"]
"on": false
name: "off"
every: 1h30m
size: 16MiB
count: "off"
listen: [':1']
admin: "off"
nets: [10.0.0.0/8]
rules:
    - "on": false
`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	var again group
	if _, err := Read("x.yaml", text, &again); err != nil {
		t.Fatal(err)
	}
	v.Hidden = ""
	if got, want := Digest(again), Digest(v); got != want {
		t.Errorf("the written settings read %+v, want %+v", again, v)
	}
}
