package category

import (
	"context"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/list"
)

// TestAnAddressIsListedInEveryForm: an address in any form that clients write matches the
// listed address, for the proxy and for the name server.
func TestAnAddressIsListedInEveryForm(t *testing.T) {
	forms := []string{
		"192.0.2.7", "0300.0.02.07", "0xc0.0x0.0x2.0x7", "0xC0.0.2.7", "3221225991", "0xc0000207", "192.519", "192.0.0x207", "030000001007",
		"::ffff:192.0.2.7", "::ffff:c000:207", "64:ff9b::192.0.2.7", "64:ff9b::c000:207", "0064:ff9b:0:0:0:0:c000:207",
	}
	others := []string{"192.0.2.8", "0300.0.02.010", "3221225992", "64:ff9b::192.0.2.8", "65:ff9b::192.0.2.7", "x192.0.2.7", "2001:db8::c000:207"}
	for name, c := range map[string]struct {
		cfg  list.Config
		text string
	}{
		"domains":           {list.Config{Format: list.Domains}, "192.0.2.7\n"},
		"domains, mapped":   {list.Config{Format: list.Domains}, "[::ffff:192.0.2.7]\n"},
		"domains, integer":  {list.Config{Format: list.Domains}, "3221225991\n"},
		"domains, NAT64":    {list.Config{Format: list.Domains}, "[64:ff9b::192.0.2.7]\n"},
		"addresses":         {list.Config{Format: list.Networks}, "192.0.2.7\n"},
		"networks":          {list.Config{Format: list.Networks}, "192.0.2.4/30\n64:ff9b::198.51.100.0/120\n"},
		"adblock, host":     {list.Config{Format: list.Adblock}, "||192.0.2.7^\n"},
		"adblock, options":  {list.Config{Format: list.Adblock}, "||192.0.2.7^$important\n"},
		"adblock, anywhere": {list.Config{Format: list.Adblock}, "/\\b192\\.0\\.2\\.7\\b/\n"},
	} {
		c.cfg.Category = "x"
		check, err := New(Config{Lists: []string{"x"}}, map[string]*list.File{"x": compile(t, "x", c.cfg, c.text)})
		if err != nil {
			t.Fatal(err)
		}
		at := func(proto filter.Proto, host string) (n int) {
			url := "http://" + host + "/a"
			if len(host) > 2 && (host[2] == ':' || host[4] == ':' || host[0] == ':' || host[1] == ':') {
				url = "http://[" + host + "]/a"
			}
			tr := &filter.Transaction{Proto: proto, Type: 1, Host: host, URL: url, Last: filter.Request, Request: &message.Request{Path: []byte("/a")}}
			if proto == filter.DNS {
				tr.Last = filter.Name
			}
			for s := filter.Name; s <= tr.Last; s++ {
				found, err := check.Find(context.Background(), tr, s, nil)
				if err != nil {
					t.Fatal(err)
				}
				n += len(found)
			}
			return n
		}
		for _, proto := range []filter.Proto{filter.HTTP, filter.DNS} {
			for _, host := range forms {
				if at(proto, host) == 0 {
					t.Errorf("%s, %s: the listed address is not found as %s", name, proto, host)
				}
			}
			if name == "networks" {
				continue
			}
			for _, host := range others {
				if at(proto, host) != 0 {
					t.Errorf("%s, %s: the unlisted address %s is found", name, proto, host)
				}
			}
		}
	}
}
