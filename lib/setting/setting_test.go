package setting

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

func TestDurationsAreReadAndWritten(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		want    time.Duration // of Or(time.Minute)
	}{
		{"90d", "90d", 90 * 24 * time.Hour},
		{"36h", "1d12h", 36 * time.Hour},
		{"30m", "30m", 30 * time.Minute},
		{"1h30m", "1h30m", 90 * time.Minute},
		{"1d12h", "1d12h", 36 * time.Hour},
		{"250ms", "250ms", 250 * time.Millisecond},
		{"90s", "1m30s", 90 * time.Second},
		{"24h", "1d", 24 * time.Hour},
		{"0", "off", 0},
		{"0s", "off", 0},
		{"0d", "off", 0},
		{"off", "off", 0},
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(tt.in)); err != nil {
			t.Errorf("reading the duration %q: %v", tt.in, err)
			continue
		}
		if got := d.Or(time.Minute); got != tt.want || d.String() != tt.out || d.Off() != (tt.want == 0) {
			t.Errorf("%q: got %v, written %q, off %v; want %v, %q", tt.in, got, d, d.Off(), tt.want, tt.out)
		}
		var again Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("the duration %q is written as %q, which reads %v, %v", tt.in, d, again, err)
		}
	}
	if got := Duration(0).Or(time.Minute); got != time.Minute {
		t.Errorf("an omitted duration is %v, want the default", got)
	}
}

func TestInvalidDurationsAreRefused(t *testing.T) {
	for _, in := range []string{"", "d", "1", "1x", "-1d", "-1s", "+1s", "1dd", "1.5d", "99999999999999999999d", "x", "1d-1h", "99999999999h", "1h1d", "1d+1h", "Off", " 1s", "65535d2562047h"} {
		var d Duration
		err := d.UnmarshalText([]byte(in))
		if err == nil || !strings.Contains(err.Error(), "is not a duration: write 90s, 15m, 36h or 30d") {
			t.Errorf("reading the invalid duration %q: %v, %v", in, d, err)
		}
	}
}

func TestSizesAreReadAndWritten(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		want    int64 // of Or(7)
	}{
		{"16MiB", "16MiB", 16 << 20},
		{"500MB", "500MB", 500e6},
		{"100KB", "100KB", 100e3},
		{"100kB", "100KB", 100e3},
		{"2 GB", "2GB", 2e9},
		{"1TiB", "1TiB", 1 << 40},
		{"1024", "1KiB", 1024},
		{"1025", "1025", 1025},
		{"5B", "5", 5},
		{"0", "off", 0},
		{"off", "off", 0},
	} {
		var s Size
		if err := s.UnmarshalText([]byte(tt.in)); err != nil {
			t.Errorf("reading the size %q: %v", tt.in, err)
			continue
		}
		if got := s.Or(7); got != tt.want || s.String() != tt.out || s.Off() != (tt.want == 0) {
			t.Errorf("%q: got %d, written %q; want %d, %q", tt.in, got, s, tt.want, tt.out)
		}
	}
	if got := Size(0).Or(7); got != 7 {
		t.Errorf("an omitted size is %d, want the default", got)
	}
	for _, in := range []string{"", "MB", "-1", "+1", "1.5MB", "1XB", "1M", "9223372036854775808", "9007199254740992KiB", "1 TB ", "0x10"} {
		var s Size
		if err := s.UnmarshalText([]byte(in)); err == nil || !strings.Contains(err.Error(), "is not a size: write 100KB, 16MiB") {
			t.Errorf("reading the invalid size %q: %d, %v", in, s, err)
		}
	}
	if s := Size(math.MaxInt64); s.Or(1) != math.MaxInt64 {
		t.Error("Or changes the largest size")
	}
}

func TestCountsAreReadAndWritten(t *testing.T) {
	for in, want := range map[string]int{"1": 1, "2048": 2048, "0": 0, "off": 0} {
		var c Count
		if err := c.UnmarshalText([]byte(in)); err != nil || c.Or(9) != want || c.Off() != (want == 0) {
			t.Errorf("%q: got %d, %v; want %d", in, c.Or(9), err, want)
		}
	}
	if got := Count(0).Or(9); got != 9 {
		t.Errorf("an omitted count is %d, want the default", got)
	}
	for _, in := range []string{"", "-1", "+1", "1.5", "many", "4294967296", "1e3"} {
		var c Count
		if err := c.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("the invalid count %q reads %d", in, c)
		}
	}
}

// config is a small Config like those of other packages.
type config struct {
	Idle   Duration          `yaml:"idle,omitempty"`
	Body   Size              `yaml:"body,omitempty"`
	Conns  Count             `yaml:"connections,omitempty"`
	Listen OneOrMore[string] `yaml:"listen,omitempty"`
	Cert   File              `yaml:"cert,omitempty"`
	Data   Folder            `yaml:"data,omitempty"`
	Trust  OneOrMore[File]   `yaml:"trust,omitempty"`
	Lists  map[string]struct {
		Path File `yaml:"path,omitempty"`
	} `yaml:"lists,omitempty"`
	Below *config `yaml:"below,omitempty"`
	Words words   `yaml:"words,omitempty"`
	own   File
}

type words []string

func (w words) MoveFiles(to func(string) string) {
	for i, s := range w {
		if f, ok := strings.CutPrefix(s, "@"); ok {
			w[i] = "@" + to(f)
		}
	}
}

func TestSettingsGoThroughYAML(t *testing.T) {
	const text = `idle: 1h30m
body: 16MiB
connections: off
listen: 127.0.0.1:8080
`
	var c config
	if err := yaml.Load([]byte(text), &c, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	want := config{Idle: Duration(90 * time.Minute), Body: 16 << 20, Conns: offInt, Listen: OneOrMore[string]{"127.0.0.1:8080"}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
	out, err := yaml.Dump(c)
	if err != nil {
		t.Fatal(err)
	}
	var again config
	if err := yaml.Load(out, &again); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("the settings are written as %s, which reads %+v, %v", out, again, err)
	}
}

func TestOneOrMoreTakesAValueAListOrOff(t *testing.T) {
	for in, want := range map[string][]string{"listen: a": {"a"}, "listen: [a, b]": {"a", "b"}, "listen: off": {}, "listen: []": {}, "idle: 1s": {"default"}} {
		var c config
		if err := yaml.Load([]byte(in), &c); err != nil {
			t.Errorf("reading %s: %v", in, err)
			continue
		}
		if got := c.Listen.Or("default"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	var c config
	if err := yaml.Load([]byte("listen: {a: b}"), &c); err == nil {
		t.Errorf("a group of settings reads %q, want an error", c.Listen)
	}
}

func TestEveryFileIsFoundAndLocated(t *testing.T) {
	const text = `
cert: a.pem
data: data
trust: [b.pem, /etc/c.pem]
lists: {ads: {path: ads.txt}, none: {}}
below: {cert: d.pem, trust: e.pem}
words: [plain, "@f.txt"]
`
	var c config
	if err := yaml.Load([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	c.own = "private.txt"
	Locate(&c, "/dir")
	want := []string{"/dir/a.pem", "/dir/ads.txt", "/dir/b.pem", "/dir/d.pem", "/dir/e.pem", "/dir/f.txt", "/etc/c.pem"}
	if got := Files(&c); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Files(c.Below); !reflect.DeepEqual(got, []string{"/dir/d.pem", "/dir/e.pem"}) {
		t.Errorf("files below: %q", got)
	}
	if c.Data != "/dir/data" || c.own != "private.txt" {
		t.Errorf("data is %q, and a field that is no setting became %q", c.Data, c.own)
	}
}

func TestAPathIsLocatedOnce(t *testing.T) {
	for in, want := range map[string]string{"a": "/d/a", "/a": "/a", "": "", "off": "", "../a": "/a"} {
		if got := Path("/d", in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestAMistakeKeepsItsPath(t *testing.T) {
	cause := errors.New("no such action")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{At("action", cause), "action: no such action"},
		{At("rules[2]", At("action", cause)), "rules[2].action: no such action"},
		{At("policies", At("[0]", At("rules[2]", cause))), "policies[0].rules[2]: no such action"},
		// A wrapped error says more than its path, and stays as it is.
		{At("checks", fmt.Errorf("reading: %w", At("path", cause))), "checks: reading: path: no such action"},
		{At("checks", errors.Join(At("a", cause), At("b", cause))), "checks.a: no such action\nchecks.b: no such action"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if !errors.Is(tt.err, cause) {
			t.Errorf("At drops the cause of %v", tt.err)
		}
	}
	if err := At("action", nil); err != nil {
		t.Errorf("At of nil is %v, want nil", err)
	}
}

func TestNetworksAreOneOrMoreAndMayBeAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1":                       "[10.0.0.1/32]",
		"[10.0.0.1/8, '2001:db8::1']":    "[10.0.0.0/8 2001:db8::1/128]",
		"['::ffff:10.0.0.1', 0.0.0.0/0]": "[10.0.0.1/32 0.0.0.0/0]",
		"[]":                             "[]",
		"[10.0.0]":                       `"10.0.0" is not an address or a network`,
		"10.0.0.0/33":                    `"10.0.0.0/33" is not an address or a network`,
	} {
		var n Networks
		got := ""
		if err := yaml.Unmarshal([]byte(in), &n); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(n)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestValueOfAKey: also where it is read with other parts of the text.
func TestValueOfAKey(t *testing.T) {
	for text, want := range map[string]any{
		"a: 1\nb: [x]\n":                      []any{"x"},
		"a: &one [x]\nb: *one\n":              []any{"x"},
		"a: &one {b: [x]}\n<<: *one\n":        []any{"x"},
		"a: 1\n":                              nil,
		"a: &two {c: 1}\nb: {<<: *two}\n":     map[string]any{"c": 1},
		"b: {c: {d: yes}}\na: {<<: {b: 2}}\n": map[string]any{"c": map[string]any{"d": "yes"}},
	} {
		var all map[string]any
		file, err := Read("f", []byte(text), &all)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got, err := file.Value("b"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: b is %#v, %v; want %#v", text, got, err, want)
		}
	}
}
