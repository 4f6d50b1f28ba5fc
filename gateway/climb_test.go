package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
	"shuultuur/test/race"
)

// A climb is a text of settings in which one key is set, and all else is as before.
type climb struct {
	key  setting.Key
	text string
}

// climbs returns a text for each key with power, derived from the types of the settings.
func climbs(t *testing.T, base string) (all []climb) {
	t.Helper()
	was := new(configuration.Settings)
	if _, err := setting.Read("base.yaml", []byte(base), was); err != nil {
		t.Fatal(err)
	}
	before := setting.Powers(was, "owner")
	for _, k := range setting.Keys(new(configuration.Settings)) {
		if k.Role != "owner" || k.Group {
			continue
		}
		found := false
		for _, value := range []string{"x", "1", "true", "2d", "2s", "high", "192.0.2.0/24", "192.0.2.1:1", "https://x.example", "[x]", "[192.0.2.0/24]", "{x: x}", "{x: [x]}", "{x: viewer}", "{viewer: [x]}", "off", "mo", "viewer"} {
			var v any
			root := map[string]any{}
			if yaml.Load([]byte(value), &v) != nil || yaml.Load([]byte(base), &root) != nil {
				t.Fatalf("%s: %q is no YAML", k.Path, value)
			}
			if !put(root, reflect.TypeFor[configuration.Settings](), strings.Split(k.Path, "."), v) {
				break
			}
			text, err := yaml.Dump(root)
			if err != nil {
				t.Fatal(err)
			}
			is := new(configuration.Settings)
			if _, err := setting.Read("climb.yaml", text, is); err == nil && !maps.Equal(before, setting.Powers(is, "owner")) {
				all, found = append(all, climb{k, string(text)}), true
				break
			}
		}
		if !found {
			t.Errorf("%s: the test finds no value that changes it", k.Path)
		}
	}
	return all
}

// put sets the key at path, of settings of type t, in the form that YAML has in memory.
func put(in map[string]any, t reflect.Type, path []string, value any) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if strings.Contains(flags, "inline") {
			if put(in, f.Type, path, value) {
				return true
			}
			continue
		}
		if name != path[0] || !f.IsExported() {
			continue
		}
		if len(path) == 1 {
			in[name] = value
			return true
		}
		of := f.Type
		list, named := false, false
		for {
			switch of.Kind() {
			case reflect.Pointer:
				of = of.Elem()
				continue
			case reflect.Slice:
				of, list = of.Elem(), true
				continue
			case reflect.Map:
				of, named = of.Elem(), true
				continue
			}
			break
		}
		below, _ := in[name].(map[string]any)
		if below == nil || list || named {
			below = map[string]any{}
		}
		if !put(below, of, path[1:], value) {
			return false
		}
		switch {
		case named && list:
			in[name] = map[string]any{"x": []any{below}}
		case named:
			all, _ := in[name].(map[string]any)
			if all == nil {
				all = map[string]any{}
			}
			all["x"] = below
			in[name] = all
		case list:
			in[name] = []any{below}
		default:
			in[name] = below
		}
		return true
	}
	return false
}

// TestNobodyClimbsByAKey tries each key that is an owner's, as each role below and in each way in which
// settings are written, and then as the only one of two owners where two are needed.
func TestNobodyClimbsByAKey(t *testing.T) {
	race.Without(t)
	const base = "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\naccess: {two-people: true}\nlists: {own: {format: domains, path: own.txt}}\nidentity: {groups: {teachers: [192.0.2.1]}}\npolicies: [{name: all, rules: []}]\n"
	file, of := withRoles(t, base)
	all := climbs(t, base)
	if len(all) < 100 {
		t.Fatalf("%d keys are tried", len(all))
	}
	unchanged := func(how string) {
		t.Helper()
		if now, err := os.ReadFile(file); err != nil || string(now) != base {
			t.Fatalf("%s changed the settings: %v\n%s", how, err, now)
		}
	}
	for role, c := range of {
		if role == account.Owner {
			continue
		}
		tag := `"x"`
		if role == account.Operator {
			_, tag = c.settings()
		}
		for _, x := range all {
			f := url.Values{"text": {x.text}, "tag": {strings.Trim(tag, `"`)}, "what": {"save"}, "checked": {web.Tag([]byte(x.text))}}
			for way, try := range map[string]func() (int, string){
				"PUT": func() (int, string) { return c.put(x.text, tag) },
				"a form": func() (int, string) {
					s, said, _ := c.do("POST", "/settings", f.Encode(), form...)
					return s, said
				},
				"a dry run": func() (int, string) { s, said, _ := c.do("PUT", "/settings?dry_run=yes", x.text); return s, said },
			} {
				how := fmt.Sprintf("%s as %v by %s", x.key.Path, role, way)
				status, said := try()
				if status != http.StatusForbidden || role == account.Operator && !strings.Contains(said, "owner") {
					t.Errorf("%s: %d %.200s, want 403", how, status, said)
				}
				unchanged(how)
			}
		}
	}
	owner := of[account.Owner]
	_, tag := owner.settings()
	for _, x := range all {
		if !x.key.Two {
			continue
		}
		status, said := owner.put(x.text, tag)
		if status == http.StatusOK {
			t.Errorf("one owner changes %s alone: %.200s", x.key.Path, said)
		}
		unchanged(x.key.Path + " by one owner")
	}
	for name, text := range map[string]string{
		"no two people":  strings.Replace(base, "two-people: true", "two-people: false", 1),
		"without access": strings.Replace(base, "access: {two-people: true}\n", "", 1),
	} {
		if status, said := owner.put(text, tag); status != http.StatusForbidden {
			t.Errorf("one owner writes %s: %d %.200s, want 403", name, status, said)
		}
		unchanged(name)
	}
}
