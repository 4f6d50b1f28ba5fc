package engine

import (
	"net/netip"
	"testing"
	"time"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
)

// Rules see each file of a message, also behind one without a name.
func TestRulesSeeEachFile(t *testing.T) {
	file := func(name, data string) *traffic.File {
		return &traffic.File{Name: name, Data: []byte(data), Size: int64(len(data)), Complete: true}
	}
	some := []*traffic.File{file("", "plain"), file("a.txt", "first"), file("b.exe", "MZ second")}
	for options, x := range map[string]struct {
		files []*traffic.File
		want  bool
	}{
		`file.name; content:"a.txt";`:                       {some, true},
		`file.name; content:"b.exe"; bsize:5;`:              {some, true},
		`file.name; content:"c";`:                           {some, false},
		`file.name; absent;`:                                {some, false},
		`file.data; content:"second";`:                      {some, true},
		`file.data; content:"plain"; startswith; endswith;`: {some, true},
		`file.data; content:"plain"; content:"first";`:      {some, false},
		`file.magic; content:"PE32";`:                       {some, true},
		`filename:"B.EXE";`:                                 {some, true},
		`fileext:"EXE";`:                                    {some, true},
		`fileext:"ex";`:                                     {some, false},
		`filesize:9;`:                                       {some, true},
		`filesize:>9;`:                                      {some, false},
		`file.data; content:"x";`:                           {nil, false},
		`file.name; content:"a";`:                           {[]*traffic.File{file("", "x")}, false},
		`file.data; bsize:0;`:                               {[]*traffic.File{file("empty", "")}, true},
		`file.data; content:!"x";`:                          {[]*traffic.File{file("empty", "")}, true},
		`file.data; content:!"x"; bsize:>0;`:                {[]*traffic.File{file("empty", "")}, false},
	} {
		e := build(t, "alert smtp any any -> any any ("+options+" sid:1;)")
		src := &traffic.Parts{Protocol: "smtp"}
		src.Attached[0] = x.files
		end := netip.MustParseAddrPort("192.0.2.1:25")
		tx := &Tx{Flow: &state.Flow{}, Source: src, App: rule.SMTP, L4: rule.TCP, Client: end, Server: end, Now: time.Unix(1e9, 0)}
		if got := len(e.Inspect(tx, rule.ToServer, rule.Complete, nil)) > 0; got != x.want {
			t.Errorf("%s matches: %v, want %v", options, got, x.want)
		}
	}
}
