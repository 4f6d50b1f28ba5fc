package redins

import (
	"strings"
	"testing"

	"shuultuur/test/redistest"
)

func TestAZoneIsEditedAsText(t *testing.T) {
	texts := map[Schema]string{
		Redins: "config: {\"soa\":{\"ns\":\"ns1.example.com.\"},\"cname_flattening\":false}\n" +
			"@ {\"ns\":{\"ttl\":300,\"records\":[{\"host\":\"ns1.example.com.\"}]}}\n" +
			"www {\"a\":{\"ttl\":300,\"filter\":{\"count\":\"single\",\"order\":\"weighted\"},\"records\":[{\"ip\":\"192.0.2.1\",\"weight\":3},{\"ip\":\"192.0.2.2\",\"weight\":1}]}}\n",
		Z42: "config: {\"soa\":{\"ns\":\"ns1.example.com.\"},\"cname_flattening\":false}\n" +
			"@ NS {\"ttl\":300,\"records\":[{\"host\":\"ns1.example.com.\"}]}\n" +
			"www A {\"ttl\":300,\"filter\":{\"count\":\"single\",\"order\":\"weighted\"},\"records\":[{\"ip\":\"192.0.2.1\",\"weight\":3},{\"ip\":\"192.0.2.2\",\"weight\":1}]}\n",
	}
	for schema, text := range texts {
		t.Run(string(schema), func(t *testing.T) {
			store := open(t, redistest.Start(t), schema)
			ctx := t.Context()
			const origin = "example.com."
			written, deleted, err := store.SetText(ctx, origin, []byte(text))
			if err != nil || written != 3 || deleted != 0 {
				t.Fatalf("SetText: %d written, %d deleted, error %v; want 3 and 0", written, deleted, err)
			}
			holds := func(want string) {
				t.Helper()
				if got, err := store.Text(ctx, origin); err != nil || string(got) != want {
					t.Errorf("Text: error %v, got\n%s, want\n%s", err, got, want)
				}
			}
			holds(text)
			for what, c := range map[string]struct{ add, want string }{
				"no JSON":        {"mail", "line 4: "},
				"broken JSON":    {"mail MX {\"ttl\"", "line 4: "},
				"wrong address":  {"mail A {\"a\":{\"ttl\":300,\"records\":[{\"ip\":\"192.0.2.256\"}]}}", "line 4: "},
				"unknown field":  {"mail A {\"nonsense\":1}", "line 4: "},
				"twice":          {strings.Split(text, "\n")[2], "line 4: www"},
				"second config":  {"config: {}", "line 4: a zone has one config"},
				"outside of all": {"a..b A {\"a\":{\"ttl\":300,\"records\":[{\"ip\":\"192.0.2.1\"}]}}", "line 4: "},
			} {
				add := c.add
				if schema == Redins {
					add = strings.NewReplacer("mail MX ", "mail ", "mail A ", "mail ", "a..b A ", "a..b ").Replace(add)
				}
				if _, _, err := store.SetText(ctx, origin, []byte(text+add)); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("SetText with %s: got %v", what, err)
				}
			}
			holds(text)
			changed := strings.Replace(text, "\"weight\":3", "\"weight\":5", 1)
			changed = changed[strings.Index(changed, "\n")+1:] // without its config
			if written, deleted, err := store.SetText(ctx, origin, []byte("\n"+changed)); err != nil || written != 1 || deleted != 1 {
				t.Errorf("SetText of a changed text: %d written, %d deleted, error %v; want 1 and 1", written, deleted, err)
			}
			holds(changed)
			z, problems, err := store.Read(ctx, origin, 60)
			if err != nil || len(problems) > 0 || len(z.Records) != 4 {
				t.Errorf("Read after the change: %v, problems %v, error %v", z, problems, err)
			}
		})
	}
}
