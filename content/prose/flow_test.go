package prose

import (
	"strings"
	"testing"
)

// textIn returns the text of runs that are read by a table.
func textIn(table *Table, runs ...string) string {
	var f Flow
	f.Reset()
	for _, r := range runs {
		for p := []byte(r); len(p) > 0; {
			n := f.Write(p, table)
			if p = p[n:]; len(p) > 0 { // a < stopped it
				f.Flush()
				f.Blank()
				p = p[1:]
			}
		}
	}
	f.Flush()
	f.TurnBack()
	f.Blank()
	return string(f.B)
}

// TestRunsBecomeWords: the result does not depend on where a run ends.
func TestRunsBecomeWords(t *testing.T) {
	for _, c := range []struct {
		table    *Table
		in, want string
	}{
		{ShownText, "Some  WORDS, more", " some words more "},
		{ShownText, "caf&eacute; &#233; &#xE9; &notin; &amp;x &#128; &", " café é é x "},
		{ShownText, "a&shy;b &unknown; &am", " ab unknown am "},
		{ShownText, "e\u0301t\u00e9 İ ß", " été i ss "},
		{ShownText, "a\x00b", " ab "},
		{ValueText, "a&copy=b &copy;c", " a copy b c "},
		{RawText, "a &amp; b", " a amp b "},
		{JSONText, `caf\u00e9 \ud83d\ude00 a\nb \"c\" \u00zz`, " café a b c zz "},
		{JSONText, `po<b>rn`, " po b porn "},
		{JSONText, `po<div>rn`, " po div rn "},
		{JSONText, `po\u003cb\u003ern`, " po b porn "},
		{CueText, "po<i>rn</i>", " po i porn i porn "},
		{FormText, "a=%C3%A9%2", " a é 2 "},
		{FormText, "a%zzb", " a zzb "},
		{PlainText, "\u202enrop\u202c x", " nrop porn x "},
	} {
		if got := textIn(c.table, c.in); got != c.want {
			t.Errorf("the text of %q is %q, want %q", c.in, got, c.want)
		}
		if got := textIn(c.table, strings.SplitAfter(c.in, "")...); got != c.want {
			t.Errorf("the text of %q, letter by letter, is %q, want %q", c.in, got, c.want)
		}
	}
}

func TestOneByteCharsetsAreDecoded(t *testing.T) {
	var f Flow
	f.Reset()
	var high [128]rune
	for i := range high {
		high[i] = 'а' + rune(i%32)
	}
	f.High, f.Multi = &high, false
	f.Write([]byte("\x80\x81 x\x82"), PlainText)
	f.Blank()
	if got := string(f.B); got != " аб xв " {
		t.Errorf("the text is %q", got)
	}
}

// TestOtherReadingsFollowTheWord: a word whose middle may be hidden is read with and without it.
func TestOtherReadingsFollowTheWord(t *testing.T) {
	read := func(steps func(f *Flow)) string {
		var f Flow
		f.Reset()
		steps(&f)
		f.Blank()
		return string(f.B)
	}
	say := func(f *Flow, s string) { f.Write([]byte(s), PlainText) }
	hidden := read(func(f *Flow) {
		say(f, "po")
		w := f.Breaks()
		say(f, "xx")
		w.Say = true
		f.GoOn(0, w)
		say(f, "rn")
	})
	if hidden != " poxxrn porn " {
		t.Errorf("with a hidden part, the text is %q", hidden)
	}
	added := read(func(f *Flow) {
		say(f, "po")
		w := f.Breaks()
		f.GoOnWith([2]Reading{w, w}, []string{"x", "r"}, 0)
		say(f, "n")
	})
	for _, word := range []string{" porn ", " poxn "} {
		if !strings.Contains(added, word) {
			t.Errorf("with added letters, the text is %q, without %q", added, word)
		}
	}
	parted := read(func(f *Flow) {
		say(f, "po")
		f.Split()
		f.Rejoin('r')
		say(f, "rn")
	})
	if parted != " po rn porn " {
		t.Errorf("with a tag that may not count, the text is %q", parted)
	}
}

func TestApostrophesStayInTerms(t *testing.T) {
	if got := Terms([]byte("{o‘yin} klub"), false); len(got) != 2 || got[0].Word != "o'yin" || !got[0].Stem || got[1].Word != "klub" || got[1].Stem {
		t.Errorf("the terms are %v", got)
	}
	if got := Apostrophes([]byte("o&lsquo;yin va klub")); !got["o'yin"] || len(got) != 1 {
		t.Errorf("the words with apostrophes are %v", got)
	}
}
