package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
)

// Sites are made of the given pages: one page gives a site its head, the beginning and the end of
// its body (menus, styles, scripts, the foot); paragraphs of all pages stand between them, other
// ones on each page. So pages of a site share what they share on the web, and no page is the
// same.
const (
	sites        = 20
	pagesOfASite = 30
	leastArticle = 8 << 10
)

var (
	paragraph = regexp.MustCompile(`(?is)<p[\s>].*?</p>`)
	bodyTag   = regexp.MustCompile(`(?i)<body[^>]*>`)
	block     = regexp.MustCompile(`(?i)<(?:p|div|h[1-6]|ul|ol|table|section)[\s>]`)
)

// layOutSites writes the pages of the sites, with compressed copies.
func (r *peerRig) layOutSites() error {
	www := filepath.Join(r.dir, "www")
	var texts, paragraphs [][]byte
	for _, name := range r.pages {
		text, err := os.ReadFile(filepath.Join(www, name))
		if err != nil {
			return err
		}
		texts = append(texts, text)
		for _, p := range paragraph.FindAll(text, -1) {
			if len(p) >= 80 && len(p) <= 4000 && !bytes.Contains(bytes.ToLower(p), []byte("<script")) {
				paragraphs = append(paragraphs, p)
			}
		}
	}
	if len(paragraphs) < 100 {
		return fmt.Errorf("the pages have %d paragraphs, too few to make sites of", len(paragraphs))
	}
	random := rand.New(rand.NewPCG(5, 4))
	for s := range sites {
		before, between, after := template(texts[s*len(texts)/sites])
		dir := filepath.Join(www, fmt.Sprintf("site%d", s))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for i := range pagesOfASite {
			page := bytes.Clone(before)
			for end := len(page) + max(between, leastArticle); len(page) < end; {
				page = append(append(page, paragraphs[random.IntN(len(paragraphs))]...), '\n')
			}
			if err := writePage(filepath.Join(dir, fmt.Sprintf("%d.html", i)), append(page, after...)); err != nil {
				return err
			}
		}
	}
	return nil
}

// template divides a page at the beginnings of blocks, after a quarter of its body and before the
// last eighth, and returns the two ends and the length of what was between them.
func template(page []byte) (before []byte, between int, after []byte) {
	body := 0
	if at := bodyTag.FindIndex(page); at != nil {
		body = at[1]
	}
	length := len(page) - body
	from := blockFrom(page, body+length/4)
	to := max(from, blockFrom(page, len(page)-length/8))
	return page[:from:from], to - from, page[to:]
}

// blockFrom returns where the next block begins.
func blockFrom(page []byte, at int) int {
	if next := block.FindIndex(page[at:]); next != nil {
		return at + next[0]
	}
	return at
}

// visitURLs returns the pages of all sites, read side by side, each with an address that was
// never asked for before.
func (r *rig) visitURLs() (urls []string) {
	r.visits++
	for i := range pagesOfASite {
		for s := range sites {
			urls = append(urls, fmt.Sprintf("%s/site%d/%d.html?visit=%d", r.base(), s, i, r.visits))
		}
	}
	return urls
}
