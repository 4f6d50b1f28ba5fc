//go:build !small

package rules

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/suricata/engine"
	"shuultuur/tool/capture"
)

const some = `alert http any any -> any any (msg:"cat"; content:"cat"; http.uri; sid:1;)
alert http any any -> any any (msg:"purr"; http.uri; content:"cat"; sid:2; rev:1;)
drop http $HOME_NET any -> any any (msg:"dog"; http.uri; content:"dog"; classtype:trojan-activity; sid:3;)
alert smb any any -> any any (msg:"share"; smb.share; content:"x"; sid:4;)
alert tcp any any -> any any (msg:"flags"; flags:S; sid:5;)
alert http any any -> any any (msg:"wrong"; nosuchkeyword:1; sid:6;)
`

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLintNamesMistakesAndInactiveRules(t *testing.T) {
	file := written(t, "some.rules", some)
	var out bytes.Buffer
	n, err := Lint(&out, &Set{Vars: []string{"HOME_NET=[10.0.0.0/8]"}}, true, file)
	if err != nil || n == 0 {
		t.Errorf("%d mistakes, %v; want some", n, err)
	}
	for _, want := range []string{"nosuchkeyword", "sid 5 is inactive: flags needs packets", "rules, "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if _, err := Lint(&out, &Set{Vars: []string{"HOME_NET"}}, false, file); err == nil {
		t.Error("a group without a value is accepted")
	}
	if _, err := Lint(&out, &Set{}, false, file+"x"); err == nil {
		t.Error("a file that is not there is accepted")
	}
}

func TestRulesAreCountedByTheirProperties(t *testing.T) {
	c, err := Count(written(t, "some.rules", some))
	if err != nil {
		t.Fatal(err)
	}
	if c.By["action"]["drop"] != 1 || c.By["keyword"]["flags"] != 1 || c.By["counts"]["captures only"] != 1 {
		t.Errorf("counted %v", c.By)
	}
	var text, object bytes.Buffer
	if err := c.Text(&text); err != nil || !strings.Contains(text.String(), "\naction\n") {
		t.Errorf("the text is %q, %v", text.String(), err)
	}
	if err := c.JSON(&object); err != nil || !json.Valid(object.Bytes()) {
		t.Errorf("the object is %q, %v", object.String(), err)
	}
	if _, err := Count("nosuch.rules"); err == nil {
		t.Error("a file that is not there is counted")
	}
}

func TestMessagesAreTried(t *testing.T) {
	s := Set{Files: []string{written(t, "some.rules", some)}, Vars: []string{"$OWN=[10.0.0.0/8]"}, Ports: []string{"OWN_PORTS=80"},
		Classes: written(t, "classification.config", "config classification: trojan-activity,A trojan,1\n"),
		Limits:  written(t, "threshold.config", "suppress gen_id 1, sig_id 4\n")}
	var mistakes bytes.Buffer
	en, err := s.Compile(Private, engine.Config{Packets: true, Trace: true}, &mistakes)
	if err != nil || !strings.Contains(mistakes.String(), "nosuchkeyword") {
		t.Fatalf("compiling: %v, with the mistakes %q", err, mistakes.String())
	}
	run := capture.New(capture.Config{}, en, capture.NewOutput(nil, nil))
	if err := Read(t.Context(), run, []string{written(t, "request", "GET /cat HTTP/1.1\r\nHost: a.example\r\n\r\n")}); err != nil {
		t.Fatal(err)
	}
	for _, tr := range en.Traces() {
		if matched := tr.Matched > 0; matched != (tr.Rule.SID == 2) {
			t.Errorf("sid %d: matched %v", tr.Rule.SID, matched)
		}
	}
	for _, s := range []Set{{}, {Files: []string{"nosuch.rules"}}, {Files: s.Files, Classes: "nosuch"}, {Files: s.Files, Limits: "nosuch"}, {Files: s.Files, Suricata: "nosuch"}} {
		if _, err := s.Compile(Private, engine.Config{}, &mistakes); err == nil {
			t.Errorf("%+v compiles", s)
		}
	}
}

func TestReplayWritesAFolder(t *testing.T) {
	empty := written(t, "empty.pcap", "\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x01\x00\x00\x00")
	var out, errs bytes.Buffer
	p := Replay{Set: Set{Files: []string{written(t, "some.rules", some)}}, Out: filepath.Join(t.TempDir(), "logs"), Stdout: &out, Stderr: &errs}
	if err := p.Run(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "0 packets") {
		t.Errorf("the summary is %q", errs.String())
	}
	for _, name := range []string{"eve.json", "fast.log"} {
		if _, err := os.Stat(filepath.Join(p.Out, name)); err != nil {
			t.Error(err)
		}
	}
	if err := p.Run(t.Context(), empty+"x"); err == nil {
		t.Error("a capture that is not there is read")
	}
}

func TestLintNamesKeywordsWithoutEffect(t *testing.T) {
	for options, want := range map[string]string{
		`content:"abc"; tag:session; `:                       "tag has no effect",
		`content:"abc"; tag:host,100,packets,src; `:          "tag has no effect",
		`file.data; content:"abc"; filestore; `:              "filestore has no effect",
		`file.data; content:"abc"; filestore:request,flow; `: "filestore has no effect",
		`tls.sni; content:"abc"; tls.store; `:                "tls.store has no effect",
		`content:"abc"; nfq_set_mark:0x1/0xff; `:             "nfq_set_mark has no effect",
		`content:"abc"; `:                                    "",
		`content:"abc"; flags:S; tag:session; `:              "flags needs packets",
		`modbus:function 1; content:"abc"; tag:session; `:    "modbus looks at a protocol",
		`app-layer-state:client_hello_done; content:"abc"; `: "app-layer-state looks at a protocol",
	} {
		var out bytes.Buffer
		if _, err := Lint(&out, &Set{}, true, written(t, "a.rules", `alert tcp any any -> any any (msg:"a"; `+options+`sid:1;)`)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || want == "" && strings.Contains(out.String(), "sid 1") {
			t.Errorf("%s: %q, want %q", options, out.String(), want)
		}
	}
}
