//go:build !small

package authority

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/zone"
)

// served serves a zone from a file.
func served(t *testing.T, text string) (a Editor, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "a.zone")
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	server, err := New(Config{Files: zone.Config{Files: []zone.File{{Path: setting.Source(file), Origin: "example.test."}}}}, nil,
		func() Upstream { return nil }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return server.Editor(), file
}

const apex = "$TTL 300\n@ SOA ns hostmaster 7 3600 600 86400 300 ; the first\n@ NS ns\n"

// entered returns fields that a test enters, written as "name=www type=A".
func entered(s string) func(string) string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(s, "|") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

func TestARecordOfAFileIsChangedAndNothingElse(t *testing.T) {
	raised := strings.Replace(apex, " 7 ", " 8 ", 1)
	for _, c := range []struct {
		name, text, what, of, enter, want string
	}{
		{"added at the end", apex + "ns A 192.0.2.1", "add", "", "name=www|type=A|address=192.0.2.2", raised + "ns A 192.0.2.1\nwww A 192.0.2.2\n"},
		{"added beside its name", apex + "ns A 192.0.2.1 ; here\n\n; mail\nmail A 192.0.2.3\n", "add", "", "name=ns|type=AAAA|address=2001:db8::1", raised + "ns A 192.0.2.1 ; here\nns AAAA 2001:db8::1\n\n; mail\nmail A 192.0.2.3\n"},
		{"with a TTL", apex + "ns A 192.0.2.1\n", "add", "", "name=www|type=A|ttl=60|address=192.0.2.2", raised + "ns A 192.0.2.1\nwww 60 A 192.0.2.2\n"},
		{"of the origin", apex + "ns A 192.0.2.1\n", "add", "", "name=@|type=MX|preference=10|target=mail.example.org", strings.TrimSuffix(raised, "\n") + "\n@ MX 10 mail.example.org.\nns A 192.0.2.1\n"},
		{"text with quotes", apex + "ns A 192.0.2.1\n", "add", "", `name=t|type=TXT|text=a "b"; \c ж`, raised + "ns A 192.0.2.1\n" + `t TXT "a \"b\"; \\c \208\182"` + "\n"},
		{"changed, with its comment", apex + "ns A 192.0.2.1\nwww\tA 192.0.2.2 ; the web\n", "change", "www A", "name=www|type=A|address=192.0.2.9", raised + "ns A 192.0.2.1\nwww A 192.0.2.9 ; the web\n"},
		{"deleted, and the next has its name", apex + "ns A 192.0.2.1\nwww A 192.0.2.2\n\tAAAA 2001:db8::2\n", "delete", "www A", "", raised + "ns A 192.0.2.1\nwww.example.test.\tAAAA 2001:db8::2\n"},
		{"renamed, and the next keeps its name", apex + "ns A 192.0.2.1\nwww A 192.0.2.2\n\tAAAA 2001:db8::2\n", "change", "www A", "name=web|type=A|address=192.0.2.2", raised + "ns A 192.0.2.1\nweb A 192.0.2.2\nwww.example.test.\tAAAA 2001:db8::2\n"},
		{"below $ORIGIN", apex + "ns A 192.0.2.1\n$ORIGIN lab.example.test.\nwww A 192.0.2.2\n", "change", "www.lab A", "name=www.lab|type=A|address=192.0.2.9", raised + "ns A 192.0.2.1\n$ORIGIN lab.example.test.\nwww.lab.example.test. A 192.0.2.9\n"},
		{"on several lines", "$TTL 300\n@ SOA ns hostmaster ( 7 ; serial (\n\t3600 600 86400 300 )\n@ NS ns\nns A 192.0.2.1\nt TXT ( \"a;\"\n \"b\" )\n", "change", "t TXT", "name=t|type=TXT|text=c", "$TTL 300\n@ SOA ns hostmaster ( 8 ; serial (\n\t3600 600 86400 300 )\n@ NS ns\nns A 192.0.2.1\nt TXT \"c\"\n"},
		{"TTL of all with its name and type", apex + "ns A 192.0.2.1\nns A 192.0.2.2\n", "change", "ns A", "name=ns|type=A|ttl=60|address=192.0.2.1", raised + "ns 60 A 192.0.2.1\nns 60 A 192.0.2.2\n"},
		{"the SOA", apex + "ns A 192.0.2.1\n", "change", "@ SOA", "name=@|type=SOA|data=ns.example.test. root.example.test. 7 7200 600 86400 300", strings.Replace(apex, "@ SOA ns hostmaster 7 3600", "@ SOA ns.example.test. root.example.test. 8 7200", 1) + "ns A 192.0.2.1\n"},
		{"Windows lines", strings.ReplaceAll(apex+"ns A 192.0.2.1\nwww A 192.0.2.2\n", "\n", "\r\n"), "delete", "www A", "", strings.ReplaceAll(raised+"ns A 192.0.2.1\n", "\n", "\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, file := served(t, c.text)
			e, err := a.Edit(t.Context(), "example.test", "", c.what, idOf(t, a, c.of), entered(c.enter))
			if err != nil {
				t.Fatal(err)
			}
			if string(e.After) != c.want {
				t.Errorf("text after the edit: got\n%q, want\n%q", e.After, c.want)
			}
			if now, _ := os.ReadFile(file); string(now) != c.text {
				t.Error("Edit wrote the file, before Write was called")
			}
			if err := a.Write(t.Context(), "example.test.", "", e.Before, e.After); err != nil {
				t.Error(err)
			}
		})
	}
}

// idOf returns the ID of a record, by its name and type.
func idOf(t *testing.T, a Editor, of string) string {
	t.Helper()
	name, typ, _ := strings.Cut(of, " ")
	all, _, err := a.EditableRecords(t.Context(), "example.test.", "", "", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Name == name && r.Type == typ {
			return r.ID
		}
	}
	return ""
}

func TestMistakesInARecordAreShownAtTheirField(t *testing.T) {
	a, _ := served(t, apex+"ns A 192.0.2.1\nwww CNAME ns\n$GENERATE 1-3 pc$ A 192.0.2.$\n")
	for enter, field := range map[string]string{
		"name=a b|type=A|address=192.0.2.1":                              "name",
		"name=www.example.org.|type=A|address=192.0.2.1":                 "name",
		"name=a..b|type=A|address=192.0.2.1":                             "name",
		"name=$INCLUDE|type=A|address=192.0.2.1":                         "name",
		"name=x|type=A|address=192.0.2.256":                              "address",
		"name=x|type=A|address=2001:db8::1":                              "address",
		"name=x|type=AAAA|address=192.0.2.1":                             "address",
		"name=x|type=AAAA|address=fe80::1%eth0":                          "address",
		"name=x|type=MX|preference=70000|target=ns":                      "preference",
		"name=x|type=MX|preference=10|target=":                           "target",
		"name=x|type=SRV|priority=1|weight=1|port=-1|target=ns":          "port",
		"name=x|type=CAA|flags=256|property=issue|value=ca.example":      "flags",
		"name=x|type=CAA|flags=0|property=is sue|value=ca.example":       "property",
		"name=x|type=DS|keytag=1|algorithm=13|digesttype=2|digest=xy":    "digest",
		"name=x|type=NONSENSE|data=1":                                    "type",
		"name=x|type=RRSIG|data=1":                                       "type",
		"name=x|type=SOA|data=ns a 1 1 1 1 1":                            "type",
		"name=x|type=A|ttl=-1|address=192.0.2.1":                         "ttl",
		"name=x|type=A|ttl=1d|address=192.0.2.1":                         "ttl",
		"name=x|type=LOC|data=nowhere":                                   "data",
		"name=x|type=A|data=192.0.2.1\nevil A 192.0.2.2":                 "data",
		"name=ns|type=A|address=192.0.2.1":                               "address",
		"name=www|type=A|address=192.0.2.1":                              "type",
		"name=www|type=CNAME|target=other":                               "name",
		"name=ns|type=CNAME|target=other":                                "type",
		"name=x|type=TXT|data=" + strings.Repeat("a", 70_000):            "data",
		"name=" + strings.Repeat("a", 64) + "|type=A|address=192.0.2.1":  "name",
		"name=" + strings.Repeat("a.", 130) + "b|type=TXT|text=too long": "name",
	} {
		_, err := a.Edit(t.Context(), "example.test.", "", "add", "", entered(enter))
		var at *FieldError
		if !errors.As(err, &at) || at.Field != field {
			t.Errorf("entering %.60s: got %v, want a mistake in %s", enter, err, field)
		}
	}
	if _, err := a.Edit(t.Context(), "example.test.", "", "delete", idOf(t, a, "pc2 A"), nil); !errors.Is(err, ErrByHand) {
		t.Errorf("deleting a record of $GENERATE: got %v, want ErrByHand", err)
	}
	if _, err := a.Edit(t.Context(), "example.test.", "", "delete", idOf(t, a, "@ SOA"), nil); err == nil {
		t.Error("Edit deleted the SOA")
	}
	if _, err := a.Edit(t.Context(), "example.test.", "", "delete", "gone", nil); !errors.Is(err, ErrNoRecord) {
		t.Errorf("deleting a record that does not exist: got %v, want ErrNoRecord", err)
	}
	if e, err := a.Edit(t.Context(), "example.test.", "", "add", "", entered("name=x|type=MX|preference=1|target=nowhere.example.test")); err != nil || len(e.Warnings) == 0 {
		t.Errorf("adding an MX whose target does not exist: got %+v, %v, want a warning", e, err)
	}
}

func TestValuesOfARecordAreReadAgain(t *testing.T) {
	for _, c := range []struct{ line, field, want string }{
		{`a. TXT "a \"b\"c\\\208\182"`, "text", `a "b"c\ж`},
		{`a. TXT "a" "b c"`, "data", `"a" "b c"`},
		{`a. CAA 0 issue "ca.example; x=1"`, "value", "ca.example; x=1"},
		{`a. SRV 1 2 3 b.`, "port", "3"},
		{`a. HTTPS 1 . alpn="h2,h3"`, "parameters", `alpn="h2,h3"`},
		{`a. LOC 51 30 12.748 N 0 7 39.611 W 0m 0m 0m 0m`, "data", "51 30 12.748 N 00 07 39.611 W 0m 0.00m 0.00m 0.00m"},
	} {
		rr, err := miekg.NewRR(c.line)
		if err != nil {
			t.Fatal(err)
		}
		r := record(rr, "example.test.")
		v := r.Values()
		if v[c.field] != c.want {
			t.Errorf("%s: Values() = %q", c.line, v)
		}
		again, err := parse(".", func(name string) string {
			return map[string]string{"name": "a.", "type": r.Type}[name] + v[name]
		}, rr.Header().Ttl)
		if err != nil || !miekg.IsDuplicate(again, rr) {
			t.Errorf("%s: parsing its values gave %v, %v", c.line, again, err)
		}
	}
}

// Two people read a zone, and both change it: the second is told.
func TestAZoneThatWasChangedMeanwhileIsNotWritten(t *testing.T) {
	a, file := served(t, apex+"ns A 192.0.2.1\n")
	edit := func(host string) *Edit {
		e, err := a.Edit(t.Context(), "example.test", "", "add", "", entered("type=A|address=192.0.2.2|name="+host))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first, other := edit("first"), edit("other")
	if err := a.Write(t.Context(), "example.test.", "", first.Before, first.After); err != nil {
		t.Fatal(err)
	}
	if err := a.Write(t.Context(), "example.test.", "", other.Before, other.After); !errors.Is(err, zone.ErrChanged) {
		t.Errorf("the second change: %v", err)
	}
	if now, _ := os.ReadFile(file); string(now) != string(first.After) {
		t.Errorf("the first change is lost: %s", now)
	}
}

func TestANewZoneReplacesNoFile(t *testing.T) {
	a, _ := served(t, apex+"ns A 192.0.2.1\n")
	dir := t.TempDir()
	var all sync.WaitGroup
	var errs [6]error
	for i := range errs {
		all.Go(func() {
			_, errs[i] = a.zones.Create(t.Context(), dir, NewZone{Origin: "new.test", Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})})
		})
	}
	all.Wait()
	made := 0
	for i, err := range errs {
		if err == nil {
			made++
			if text, _ := os.ReadFile(filepath.Join(dir, "new.test.zone")); !strings.Contains(string(text), fmt.Sprintf("192.0.2.%d\n", i)) {
				t.Errorf("zone %d was made, and the file has\n%s", i, text)
			}
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d of six zones with one name were made", made)
	}
}
