package redins

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
	"shuultuur/zone"
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

// The nodes of a fleet have one Redis. Six changes of one text that two of them make at once end as
// one, and so do six new zones with one name.
func TestTheNodesOfAFleetChangeAZoneOneAfterTheOther(t *testing.T) {
	for _, schema := range []Schema{Redins, Z42} {
		t.Run(string(schema), func(t *testing.T) {
			server := redistest.Start(t)
			store := open(t, server, schema)
			base := map[Schema]string{Redins: "@ {\"ns\":", Z42: "@ NS "}[schema] + "{\"ttl\":300,\"records\":[{\"host\":\"ns1.example.com.\"}]}" + map[Schema]string{Redins: "}\n", Z42: "\n"}[schema]
			if _, _, err := store.SetText(t.Context(), "example.com.", []byte(base)); err != nil {
				t.Fatal(err)
			}
			was, err := store.Text(t.Context(), "example.com.")
			if err != nil {
				t.Fatal(err)
			}
			config := at127(server)
			config.Schema = schema
			nodes := []*node{startNode(t, config, nil, nil), startNode(t, config, nil, nil)}
			for _, n := range nodes {
				waittest.Until(t, "the zone is served", func() bool { return n.Has("example.com.") })
			}
			six := func(do func(n *node, i int) error) (done []int) {
				var all sync.WaitGroup
				var errs [6]error
				for i := range errs {
					all.Go(func() { errs[i] = do(nodes[i%2], i) })
				}
				all.Wait()
				for i, err := range errs {
					switch {
					case err == nil:
						done = append(done, i)
					case !errors.Is(err, zone.ErrChanged) && !errors.Is(err, ErrTaken):
						t.Errorf("change %d: %v, want that the zone was changed meanwhile", i, err)
					}
				}
				return done
			}
			text := func(i int) []byte {
				line := fmt.Sprintf("{\"ttl\":300,\"records\":[{\"ip\":\"192.0.2.%d\"}]}", i)
				return append(bytes.Clone(was), map[Schema]string{Redins: fmt.Sprintf("n%d {\"a\":%s}\n", i, line), Z42: fmt.Sprintf("n%d A %s\n", i, line)}[schema]...)
			}
			done := six(func(n *node, i int) error { return SetText(t.Context(), n.Source, "example.com.", was, text(i)) })
			if len(done) != 1 {
				t.Fatalf("changes %v of six were made, want one", done)
			}
			if got, err := store.Text(t.Context(), "example.com."); err != nil || string(got) != string(text(done[0])) {
				t.Errorf("change %d was made, error %v, and the text is\n%s", done[0], err, got)
			}
			if err := Delete(t.Context(), nodes[0].Source, "example.com.", was); !errors.Is(err, zone.ErrChanged) {
				t.Errorf("deleting a zone that was changed meanwhile: %v", err)
			}
			done = six(func(n *node, i int) error {
				z, err := zone.Read(strings.NewReader(fmt.Sprintf("$TTL 60\n@ SOA ns hostmaster 1 2h 30m 2w 5m\n@ NS ns\nns A 192.0.2.%d\n", i)), "new.example.", "")
				if err != nil {
					return err
				}
				return Create(t.Context(), n.Source, z)
			})
			if len(done) != 1 {
				t.Errorf("zones %v of six with one name were made, want one", done)
			}
			// A node that died while it wrote does not keep the others out for good, but for its time.
			key := string(schema) + ":zone-lease:example.com."
			server.Do(t, "SET", key, "a dead node", "PX", "60000")
			now := text(done[0])
			if got, err := store.Text(t.Context(), "example.com."); err == nil {
				now = got
			}
			if err := SetText(t.Context(), nodes[0].Source, "example.com.", now, was); !errors.Is(err, zone.ErrChanged) {
				t.Errorf("writing while another node writes: %v", err)
			}
			server.Do(t, "DEL", key)
			if err := SetText(t.Context(), nodes[0].Source, "example.com.", now, was); err != nil {
				t.Errorf("writing after that: %v", err)
			}
		})
	}
}
