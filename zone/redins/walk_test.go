package redins

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func FuzzWalk(f *testing.F) {
	for _, text := range []string{
		`{"ttl":300,"records":[{"ip":"1.2.3.4","country":"US","asn":444,"weight":10},{"ip":"2.2.3.4","country":["GB",""],"asn":[444,555]}],"filter":{"count":"single"},"health_check":{"enable":true,"port":80}}`,
		` { "records" : [ ] , "ttl" : 1 } `, `{}`, `[]`, `{"a":{"b":[1,"]}\""]},"A":null}`, `{"ip":"\u0031","ip":"x","weight":1e2}`, `{"ttl":1,"ttl":2,"records":[1],"records":[2]}`, `"x"`, `{"country":[],"asn":[0]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) { // encoding/json makes something of it
			return
		}
		names, values, err := types(b)
		var want map[string]json.RawMessage
		if wantErr := json.Unmarshal(b, &want); (err == nil) != (wantErr == nil) {
			t.Fatalf("fields(%q): got %v, want %v", b, err, wantErr)
		}
		if err != nil {
			return
		}
		if len(names) != len(values) || len(values) != len(want) {
			t.Fatalf("%q: fields %q, want %v", b, names, want)
		}
		for k, v := range want {
			if string(values[k]) != string(v) {
				t.Fatalf("%q: field %s is %s, want %s", b, k, values[k], v)
			}
		}
		same := func(walked bool, got, want any) {
			if !walked {
				return
			}
			if unknown, err := decode(b, want); err != nil || unknown != "" {
				t.Fatalf("walk accepted %q, but decode returned %v, unknown field %s", b, err, unknown)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("walk(%q) differs from decode (-want +got):\n%s", b, diff)
			}
		}
		set, address := new(addressSet), new(addressJSON)
		same(set.walk(b), set, new(addressSet))
		same(address.walk(b), address, new(addressJSON))
	})
}
