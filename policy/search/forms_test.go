package search

import (
	"net/url"
	"testing"
)

func TestSearchTermsAreFoundByStem(t *testing.T) {
	f := NewForms()
	for _, p := range []string{"{qimor}", "{o'yin} klubi", "{бооцоо}"} {
		if err := f.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Add("{-}"); err == nil {
		t.Error("add accepted a phrase without a letter")
	}
	for term, want := range map[string]bool{
		"eng yaxshi qimorlarga": true, "o‘yinlar klubi": true, "қиморларга": true, "бооцооноосоо": true,
		"qimorboz": false, "o'yinlar": false, "klubi": false, "": false,
	} {
		if got := f.In(AppendTerm(nil, []byte(url.QueryEscape(term)))); got != want {
			t.Errorf("search term %q contains the phrase: %v, want %v", term, got, want)
		}
	}
}
