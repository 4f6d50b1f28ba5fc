package forward

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/test/peer"
	"shuultuur/zone/sign"
)

// TestTheParentIsAskedForDSRecords asks an NSD that has the parent zone, as an
// upstream of the zone's name.
func TestTheParentIsAskedForDSRecords(t *testing.T) {
	key, err := sign.Generate("own.example.", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), peer.Port(t)
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	zone := put("zone", "$ORIGIN example.\n$TTL 300\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\nown NS ns.own\nns.own A 127.0.0.1\n"+key.DS().String()+"\nother NS ns.own\n")
	conf := put("nsd.conf", fmt.Sprintf("server:\n\tip-address: 127.0.0.1\n\tport: %s\n\tdo-ip6: no\n\tchroot: \"\"\n\tusername: %q\n\tdatabase: \"\"\n\tpidfile: \"\"\n\tzonesdir: %q\n\txfrdfile: \"%s/x\"\n\tzonelistfile: \"%s/l\"\n\txfrdir: %q\n\tserver-count: 1\nremote-control:\n\tcontrol-enable: no\nzone:\n\tname: example.\n\tzonefile: %q\n", port, me.Username, dir, dir, dir, dir, zone))
	peer.Start(t, "nsd", "-d", "-c", conf)
	f, err := New(Config{Routes: map[string]setting.OneOrMore[string]{"example": {"127.0.0.1:" + port}}, Upstreams: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ds []*miekg.DS
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ds, err = f.DS(t.Context(), "own.example."); err == nil {
			break
		}
	}
	if err != nil || len(ds) != 1 || !miekg.IsDuplicate(ds[0], key.DS()) {
		t.Errorf("DS: got %v, %v, want %v", ds, err, key.DS())
	}
	for _, name := range []string{"other.example.", "none.example."} {
		if ds, err := f.DS(t.Context(), name); err != nil || len(ds) != 0 {
			t.Errorf("DS of %s: got %v, %v, want none", name, ds, err)
		}
	}
	if _, err := f.DS(t.Context(), "nowhere.test."); err == nil {
		t.Error("DS from an upstream that is away: got no error")
	}
}
