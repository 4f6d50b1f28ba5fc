package phrase

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// files is a file system of lists.
type files map[string]string

func (f files) open(path string) ([]byte, error) {
	s, ok := f[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(s), nil
}

// readerFor returns a reader over files, made as by New for compat.
func readerFor(t testing.TB, compat string, f files) *reader {
	t.Helper()
	c := new(Check)
	if err := c.configure(Config{Compat: compat}); err != nil {
		t.Fatal(err)
	}
	r := c.reader("/lists")
	r.open, r.inside = f.open, nil
	return r
}

// show formats a rule: kind, phrases, weight, category.
func (r *reader) show(u *rule) string {
	s := u.kind.String()
	for _, p := range u.parts {
		s += fmt.Sprintf(" %q", p)
	}
	if u.kind == weighted {
		s += fmt.Sprintf(" %d", u.weight)
	}
	if u.category != 0 {
		s += " in " + r.categories[u.category]
	}
	return s
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		compat, line string
		kind         kind
		want         string // "" for no rule
		remark       string // part of it, "" for none
		mend         string
	}{
		{line: "<sex><10>", want: `weighted "sex" 10`},
		{line: "< sex ><-10>", want: `weighted " sex " -10`},
		{line: "  <sex><10> # why", want: `weighted "sex" 10`},
		{line: "<SEX Toy><10>", want: `weighted "sex toy" 10`},
		{line: "<sex-toy><10>", want: `weighted "sex toy" 10`},
		{line: "<sex-toy><10>", compat: "e2guardian-5.5", want: `weighted "sex toy" 10`},
		{line: "<sex-toy><10>", compat: "e2guardian-5.3", want: `weighted "sex-toy" 10`, remark: "never matches", mend: "<sex toy>"},
		{line: "<a.b><10>", compat: "e2guardian-5.3", want: `weighted "a.b" 10`},
		{line: "<.com/x><10>", want: `weighted " com x" 10`},
		{line: "<20%><20%>", want: `weighted "20 " 10`},
		{line: "<foo>, <bar><10>", want: `weighted "foo" "bar" 10`},
		{line: "<foo>,<bar>,< baz ><10>", want: `weighted "foo" "bar" " baz " 10`},
		{line: "<foo>,<foo><10>", want: `weighted "foo" "foo" 10`},
		{line: "<foo> ,<bar><10>", want: `weighted "foo" 10`, remark: "blank before the comma", mend: "<foo>,<bar><10>"},
		{line: "<foo> <10>", want: `banned "foo"`, remark: "blank before the weight", mend: "<foo><10>"},
		{line: "<foo>,<bar> <10>", want: `banned "foo" "bar"`, remark: "blank before the weight", mend: "<foo>,<bar><10>"},
		{line: "<foo><0>", want: `banned "foo"`, remark: "a weight of 0"},
		{line: "<foo>", want: `banned "foo"`},
		{line: "<foo>", kind: banned, want: `banned "foo"`},
		{line: "<foo><7>", kind: banned, want: `weighted "foo" 7`},
		{line: "<foo>", kind: exception, want: `exception "foo"`},
		{line: "<foo><-7>", kind: exception, want: `weighted "foo" -7`},
		{line: "<foo><bar><7>", want: `banned "foo"`, remark: `weight "bar" is not a number`},
		{line: "<foo><99999999999999999999>", want: `weighted "foo" 1000000`},
		{line: "<foo", remark: "not a phrase"},
		{line: "<foo>,<ba", remark: "not a phrase"},
		{line: "<>", remark: "no letter or digit"},
		{line: "<?!><10>", remark: "no letter or digit"},
		{line: "<?!><10>", compat: "dansguardian", want: `weighted "?!" 10`},
		{line: `<content="adult"><10>`, remark: "markup"},
		{line: `<content="adult"><10>`, compat: "e2guardian-5.5", want: `weighted "content adult " 10`},
		{line: "<" + strings.Repeat("x", 127) + "><10>", compat: "e2guardian-5.5", remark: "longer than 126 bytes"},
		{line: "<" + strings.Repeat("x", 600) + "><10>", remark: "longer than"},
		{line: "<ШҮҮЛТҮҮР><11>", want: `weighted "шүүлтүүр" 11`},
		{line: "<ШҮҮЛТҮҮР><11>", compat: "e2guardian-5.3", want: `weighted "шүүлтүүр" 11`},
		{line: "<caf\xe9><11>", want: `weighted "café" 11`},
		{line: "<CAF\xc9><11>", compat: "e2guardian-5.3", want: `weighted "caf\xe9" 11`},
		{line: "# <foo><10>"},
		{line: "foo", remark: "neither a phrase"},
	} {
		r := readerFor(t, c.compat, files{"/lists/w": c.line + "\r\n"})
		if err := r.read("/lists/w", section{kind: c.kind}, nil); err != nil {
			t.Errorf("reading %q: %v", c.line, err)
			continue
		}
		got := ""
		for i := range r.rules {
			got += r.show(&r.rules[i])
		}
		if got != c.want {
			t.Errorf("reading %q in a list of kind %v, compat %q, gave %s, want %s", c.line, c.kind, c.compat, got, c.want)
		}
		var remark Remark
		if len(r.remarks) > 0 {
			remark = r.remarks[0]
		}
		if (c.remark == "") != (remark.Text == "") || !strings.Contains(remark.Text, c.remark) || remark.Mend != c.mend {
			t.Errorf("reading %q: remark %q and mended line %q, want %q and %q", c.line, remark.Text, remark.Mend, c.remark, c.mend)
		}
	}
}

func TestSectionsAreInheritedAndDoNotLeakBack(t *testing.T) {
	r := readerFor(t, "", files{
		"/lists/w": "\xef\xbb\xbf#listcategory: \"Outer\"\n<a1><1>\n.Include<sub/i>\n<a2><2>\n" +
			"#listcategory: \"open\n<a3><3>\n#time: 9 0 17 30 01234\n<a4><4>\n.include<sub/time>\n",
		"/lists/sub/i":    "<b1><1>\n#ListCategory:\"Inner\"\n<b2><2>\n.Include<deep>\n",
		"/lists/sub/deep": "<c><1>\n#time: 0 0 0 0 0\n",
		"/lists/sub/time": "<d><1>\n",
	})
	if err := r.read("/lists/w", section{}, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a1": "Outer always w:2", "b1": "Outer always sub/i:1", "b2": "Inner always sub/i:3",
		"c": "Inner always sub/deep:1", "a2": "Outer always w:4", "a3": "Outer always w:6",
		"a4": "Outer gated w:8", "d": "Outer gated sub/time:1",
	}
	for _, u := range r.rules {
		when := "always"
		if r.windows[u.window].gated {
			when = "gated"
		}
		name := string(u.parts[0])
		got := fmt.Sprintf("%s %s %s:%d", r.categories[u.category], when, r.files[u.file], u.line)
		if got != want[name] {
			t.Errorf("the rule of %s is %s, want %s", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("these rules were not read: %v", want)
	}
	if len(r.remarks) != 1 || r.remarks[0].Mend != `#listcategory: "open"` {
		t.Errorf("the remarks are %v, want one about the missing quote", r.remarks)
	}
}

func TestNoconvertIsForTheRestOfItsFile(t *testing.T) {
	r := readerFor(t, "e2guardian-5.3", files{
		"/lists/w": "<Aa><1>\n#noconvert\n<Bb><1>\n.Include<i>\n",
		"/lists/i": "<Cc><1>\n",
	})
	if err := r.read("/lists/w", section{}, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range r.rules {
		got = append(got, string(u.parts[0]))
	}
	if want := []string{"aa", "Bb", "cc"}; !slices.Equal(got, want) {
		t.Errorf("the phrases are %q, want %q", got, want)
	}
}

func TestIncludes(t *testing.T) {
	deep := files{}
	for i := range 20 {
		deep[fmt.Sprintf("/lists/%d", i)] = fmt.Sprintf(".Include<%d>\n", i+1)
	}
	wide := files{"/lists/0": strings.Repeat(".Include<e>\n", 3000), "/lists/e": ""}
	for _, c := range []struct {
		name  string
		files files
		rules int
		err   string // part of it, "" for none
	}{
		{"relative to the including file", files{"/lists/0": ".Include<a/b>", "/lists/a/b": ".Include<c>", "/lists/a/c": "<x>"}, 1, ""},
		{"absolute", files{"/lists/0": ".Include</x/y> #note", "/x/y": "<x>"}, 1, ""},
		{"case kept", files{"/lists/0": ".Include<Aa>", "/lists/Aa": "<x>", "/lists/aa": ""}, 1, ""},
		{"lower case as second chance", files{"/lists/0": ".Include<Aa>", "/lists/aa": "<x>"}, 1, ""},
		{"same file twice", files{"/lists/0": ".Include<a>\n.Include<a>", "/lists/a": "<x>"}, 2, ""},
		{"missing", files{"/lists/0": "<x>\n.Include<Aa>"}, 0, `0:2: include "Aa": open /lists/Aa: file does not exist`},
		{"missing further down", files{"/lists/0": "\n\n.Include<A>", "/lists/A": ".Include<b>"}, 0, `0:3: A:1: include "b": open /lists/b`},
		{"itself", files{"/lists/0": ".Include<0>"}, 0, `"0" includes itself`},
		{"in a circle", files{"/lists/0": ".Include<a>", "/lists/a": ".Include<./0>"}, 0, `includes itself`},
		{"too deep", deep, 0, "nested more than 16 deep"},
		{"too many", wide, 0, "more than 2000 list files"},
		{"no name", files{"/lists/0": ".Include<>"}, 0, "want .Include<path>"},
		{"own category", files{"/lists/0": `#listcategory: "bannedphrase"`}, 0, "0:1: category \"bannedphrase\" is reserved by the check"},
		{"bad time", files{"/lists/0": "<x>\n#time: 25 0 3 4 5"}, 0, `0:2: time "25 0 3 4 5": want`},
	} {
		r := readerFor(t, "", c.files)
		err := r.read("/lists/0", section{}, nil)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: reading the list: %v, want %q", c.name, err, c.err)
		}
		if c.err == "" && len(r.rules) != c.rules {
			t.Errorf("%s: read %d rules, want %d", c.name, len(r.rules), c.rules)
		}
	}
}

func TestErrorsNameTheSetting(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/ok", []byte("<x><1>"))
	two := 2
	seven := 7
	on := true
	for _, c := range []struct {
		cfg Config
		key string
	}{
		{Config{Weighted: located(dir, "ok", "missing")}, "weighted[1]"},
		{Config{Banned: []setting.File{"missing"}}, "banned[0]"},
		{Config{Exception: []setting.File{"missing"}}, "exception[0]"},
		{Config{Compat: "squid"}, "compat"},
		{Config{WeightedPhraseMode: &seven}, "weightedphrasemode"},
		{Config{NaughtynessLimit: -1}, "naughtynesslimit"},
		{Config{PhraseFilterMode: &two}, "phrasefiltermode"},
		{Config{PreserveCase: &two}, "preservecase"},
		{Config{HexDecodeContent: &on}, "hexdecodecontent"},
		{Config{Compat: "dansguardian", PhraseFilterMode: &seven}, "phrasefiltermode"},
		{Config{Compat: "dansguardian", PreserveCase: &seven}, "preservecase"},
	} {
		_, err := New(c.cfg, dir, noon)
		var set *setting.Error
		if !errors.As(err, &set) || set.Key != c.key {
			t.Errorf("New(%+v): %v, want an error about %s", c.cfg, err, c.key)
		}
	}
}

func TestCharsetOfLists(t *testing.T) {
	for _, c := range []struct{ path, bytes, want string }{
		{"l/portuguese/weighted", "sa\xfade", "saúde"},
		{"l/portuguese/weighted", "saúde\nsa\xfade", "saúde\nsaúde"},
		{"l/russian-1251/pornography/weighted", "\xf1\xe5\xea\xf1", "секс"},
		{"l/russian-koi8-r/pornography/weighted", "\xd3\xc5\xcb\xd3", "секс"},
		{"l/pornography/weighted_russian", "\xf1\xe5\xea\xf1", "секс"},
		{"l/chinesegb2312/weighted", "\xc9\xab\xc7\xe9", "色情"},
		{"l/chinesebig5/weighted", "\xa6\xe2\xb1\xa1", "色情"},
		{"l/japanese/weighted", "\xa5\xa8\xa5\xed", "エロ"},
		{"l/japanese/weighted", "\x83\x47\x83\x8d", "エロ"},
		{"l/japanese/weighted", "エロ", "エロ"},
		{"l/polish/weighted", "\xb1\xb6", "ąś"},
	} {
		if got := string(toUTF8([]byte(c.bytes), c.path)); got != c.want {
			t.Errorf("toUTF8(%q) of %s = %q, want %q", c.bytes, c.path, got, c.want)
		}
	}
}

func TestDebianListsLoad(t *testing.T) {
	for compat, want := range map[string]int{"modern": 6000, "e2guardian-5.3": 6200, "e2guardian-5.5": 6200, "dansguardian": 6200} {
		c := e2gCheck(t, compat)
		if got := c.set.Len(); got < want {
			t.Errorf("%s: the set has %d phrases, want at least %d", compat, got, want)
		}
		if got := c.set.Size(); got > 1<<20 {
			t.Errorf("%s: the set takes %d bytes, want at most 1 MiB", compat, got)
		}
		for _, r := range c.Remarks() {
			if r.Line == 0 || r.File == "" || r.Text == "" {
				t.Errorf("%s: a remark lacks its place or its text: %+v", compat, r)
			}
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte("#listcategory: \"A\"\n<a>,<b><10>\n<c><-5%>\n.Include<x>\n"), []byte("#time: 0 0 23 59 0123456\n<d>\n#noconvert\n<E>"), uint8(0))
	f.Add([]byte("<foo> ,<bar> <10>\n<>\n<<<>>>\n><\n#listcategory:"), []byte(".Include<x>"), uint8(1))
	f.Add([]byte("\xef\xbb\xbf<\xff\xfe><1>\n<\xe9\xe9><1>"), []byte("#time:"), uint8(2))
	f.Fuzz(func(t *testing.T, a, b []byte, mode uint8) {
		compat := []string{"modern", "dansguardian", "e2guardian-5.3", "e2guardian-5.5"}[mode%4]
		r := readerFor(t, compat, files{"/lists/w": string(a), "/lists/x": string(b)})
		if err := r.read("/lists/w", section{}, nil); err != nil {
			return
		}
		if lines := bytes.Count(a, []byte("\n")) + 1; len(r.rules) > lines*(bytes.Count(b, []byte("\n"))+2) {
			t.Fatalf("%d lines became %d rules", lines, len(r.rules))
		}
		for i := range r.rules {
			u := &r.rules[i]
			if len(u.parts) == 0 || (u.kind == weighted) != (u.weight != 0) {
				t.Fatalf("the rule %s has no phrase, or a weight that does not fit its kind", r.show(u))
			}
			for _, p := range u.parts {
				if len(p) == 0 || len(p) > r.maxPhrase {
					t.Fatalf("the phrase %q is empty or too long", p)
				}
			}
		}
		if _, err := compile(&r.lists); err != nil {
			t.Fatalf("lists that were read do not compile: %v", err)
		}
	})
}
