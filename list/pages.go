package list

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/zeebo/xxh3"

	"shuultuur/filter"
	"shuultuur/list/adblock"
)

// Pages are the changes that some lists make to web pages: hidden elements, scriptlets,
// additional response headers. They are immutable and safe for concurrent use.
//
// A site has few rules that hide elements only on it, but many thousands apply to all pages.
// The former are collected for each page. The latter form one style sheet that a browser
// fetches once, the same for all pages except those with exceptions.
type Pages struct {
	files   []*File
	generic func() *genericSheet
	scratch sync.Pool // of *pageScratch
}

// mostOnPage bounds the cosmetic rules of a list that apply to one page.
const mostOnPage = 10_000

// pageScratch is the working memory for a page.
type pageScratch struct {
	request  adblock.Request
	refs     []uint32
	found    []adblock.CosmeticMatch
	excepted map[string]bool
	effects  []pageEffect
}

type pageEffect struct {
	effects   adblock.Effect
	value     string
	exception bool
}

// NewPages returns the changes that lists make to pages, nil if there are none.
func NewPages(files []*File) *Pages {
	p := &Pages{}
	for _, f := range files {
		if f.rules.pages != nil || f.rules.cosmetics != nil {
			p.files = append(p.files, f)
		}
	}
	if len(p.files) == 0 {
		return nil
	}
	p.generic = sync.OnceValue(p.newGeneric)
	p.scratch.New = func() any { return &pageScratch{excepted: map[string]bool{}} }
	return p
}

// Look puts into dst the changes to the page at a URL; frame reports that it is in a frame
// of another page.
func (p *Pages) Look(url string, frame bool, dst *filter.Changes) {
	dst.Reset()
	w := p.scratch.Get().(*pageScratch)
	defer p.release(w)
	typ := adblock.Document
	if frame {
		typ = adblock.Subdocument
	}
	w.request.SetDocument(url, typ)
	without := p.effects(w, dst)
	if without&adblock.NoHiding != 0 && without&adblock.NoScripts != 0 {
		return
	}
	p.find(w)
	g := p.generic()
	if without&(adblock.NoHiding|adblock.NoSpecific) == 0 {
		for _, x := range w.found {
			if !x.Scriptlet && !x.Exception && !w.excepted[x.Text] && !g.excepted[x.Text] {
				dst.Style = append(append(dst.Style, x.Text...), hide...)
				dst.Hidden++
			}
		}
	}
	if without&(adblock.NoHiding|adblock.NoGeneric) == 0 && len(g.all) > 0 {
		dst.Sheet = g.path
	}
	if without&adblock.NoScripts == 0 && !w.excepted[scriptletMark] {
		for _, x := range w.found {
			if x.Scriptlet && !x.Exception && !w.excepted[scriptletMark+x.Text] && !g.excepted[scriptletMark+x.Text] && !slices.Contains(dst.Scriptlets, x.Text) {
				dst.Scriptlets = append(dst.Scriptlets, strings.Clone(x.Text))
			}
		}
	}
	if len(dst.Scriptlets) > 0 {
		dst.Script = adblock.AppendScript(dst.Script, dst.Scriptlets)
	}
}

// release keeps w for the next page, without pointers into mapped files.
func (p *Pages) release(w *pageScratch) {
	clear(w.found)
	clear(w.excepted)
	w.found = w.found[:0]
	p.scratch.Put(w)
	runtime.KeepAlive(p)
}

// hide is the declaration block that hides elements.
const hide = "{display:none!important}\n"

// scriptletMark precedes scriptlets in exceptions; alone it means all of them.
const scriptletMark = "+js "

// effects evaluates the rules about a whole page: without has the effects that
// are forbidden.
func (p *Pages) effects(w *pageScratch, dst *filter.Changes) (without adblock.Effect) {
	w.effects = w.effects[:0]
	for _, f := range p.files {
		if f.rules.pages == nil {
			continue
		}
		w.refs = f.rules.pages.MatchPage(&w.request, w.refs[:0])
		for _, ref := range w.refs {
			effects, value, exception := f.rules.pages.Effect(ref)
			w.effects = append(w.effects, pageEffect{effects, string(value), exception})
			if exception {
				without |= effects
			}
		}
	}
	for _, x := range w.effects {
		if x.exception || slices.ContainsFunc(w.effects, func(y pageEffect) bool {
			return y.exception && y.effects&x.effects != 0 && (y.value == "" || y.value == x.value)
		}) {
			continue
		}
		value := strings.ReplaceAll(x.value, `\,`, ",")
		if x.effects&adblock.AddPermissions != 0 {
			dst.Permissions = append(dst.Permissions, strings.ReplaceAll(value, "|", ", "))
		} else {
			dst.Policies = append(dst.Policies, value)
		}
	}
	return without
}

// find collects the cosmetic rules of the page, and their exceptions.
func (p *Pages) find(w *pageScratch) {
	w.found = w.found[:0]
	clear(w.excepted)
	for _, f := range p.files {
		if f.rules.cosmetics == nil {
			continue
		}
		n := len(w.found)
		w.found = f.rules.cosmetics.Find(&w.request, w.found)
		w.found = w.found[:min(len(w.found), n+mostOnPage)]
	}
	for _, x := range w.found {
		switch {
		case !x.Exception:
		case x.Scriptlet:
			w.excepted[scriptletMark+x.Text] = true
		default:
			w.excepted[x.Text] = true
		}
	}
}

// A genericSheet is the style sheet for all pages.
type genericSheet struct {
	names    []string // single classes and ids, of which many share a block
	others   []string
	excepted map[string]bool // on all pages, including rules for one site
	all      []byte          // the sheet without exceptions
	zipped   []byte          // the same, compressed
	path     string
}

// The path, on any host, where browsers fetch the style sheet for all pages. The part in
// between changes with the sheet.
const sheetPrefix, sheetSuffix = "/.well-known/shuultuur/hide-", ".css"

// perBlock is how many selectors share a block.
const perBlock = 64

func (p *Pages) newGeneric() *genericSheet {
	s := &genericSheet{excepted: map[string]bool{}}
	seen := map[string]bool{}
	for _, f := range p.files {
		if c := f.rules.cosmetics; c != nil {
			c.Generic(func(x adblock.CosmeticMatch) bool {
				switch {
				case x.Exception && x.Scriptlet:
					s.excepted[scriptletMark+x.Text] = true
				case x.Exception:
					s.excepted[strings.Clone(x.Text)] = true
				}
				return true
			})
		}
	}
	for _, f := range p.files {
		if c := f.rules.cosmetics; c != nil {
			c.Generic(func(x adblock.CosmeticMatch) bool {
				if x.Exception || x.Scriptlet || s.excepted[x.Text] || seen[x.Text] {
					return true
				}
				text := strings.Clone(x.Text)
				seen[text] = true
				if adblock.IsName(text) {
					s.names = append(s.names, text)
				} else {
					s.others = append(s.others, text)
				}
				return true
			})
		}
	}
	s.all = s.sheetWithout(nil)
	s.path = fmt.Sprintf("%s%016x%s", sheetPrefix, xxh3.Hash(s.all), sheetSuffix)
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // into memory
	_, _ = z.Write(s.all)
	_ = z.Close()
	s.zipped = b.Bytes()
	return s
}

// sheetWithout returns the sheet without some selectors.
func (s *genericSheet) sheetWithout(excepted map[string]bool) []byte {
	var b []byte
	n := 0
	for _, text := range s.names {
		if excepted[text] {
			continue
		}
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, text...)
		if n++; n == perBlock {
			b, n = append(b, hide...), 0
		}
	}
	if n > 0 {
		b = append(b, hide...)
	}
	for _, text := range s.others {
		if !excepted[text] {
			b = append(append(b, text...), hide...)
		}
	}
	return b
}

// Sheet returns the style sheet for all pages as it is for a host, if path names one, and
// whether it is compressed, which gzip permits. A page from before a change of the lists
// requests an older sheet and gets this one.
func (p *Pages) Sheet(path []byte, host string, gzip bool) (css []byte, zipped, ok bool) {
	if !bytes.HasPrefix(path, []byte(sheetPrefix)) || !bytes.HasSuffix(path, []byte(sheetSuffix)) {
		return nil, false, false
	}
	s := p.generic()
	w := p.scratch.Get().(*pageScratch)
	defer p.release(w)
	w.request.SetDocument("https://"+host+"/", adblock.Document)
	p.find(w)
	switch {
	case len(w.excepted) > 0:
		return s.sheetWithout(w.excepted), false, true
	case gzip:
		return s.zipped, true, true
	}
	return s.all, false, true
}
