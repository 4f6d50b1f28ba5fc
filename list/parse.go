package list

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"golang.org/x/text/transform"

	"shuultuur/lib/dns"
	"shuultuur/list/adblock"
	"shuultuur/list/files"
	"shuultuur/list/width"
)

// A parser reads the lines of one file into a builder.
type parser struct {
	b          *builder
	src        Source
	cat        uint16
	format     Format
	exact      bool // entries match only the host
	first      uint32
	kept       int    // problems of this file kept in the report
	host       []byte // buffers
	path       []byte
	zone       zone
	columns    columns           // of csv
	categories map[string]uint16 // categories of json and csv entries
	rule       adblock.Rule
	conditions adblock.Conditions
	before     int   // what was read from earlier files
	err        error // error of the builder
}

// file reads the file called path in a line format; every entry is in category cat.
func (b *builder) file(r io.Reader, path string, format FormatName, category string) error {
	marking := &files.Marking{Reader: r}
	br := bufio.NewReaderSize(marking, files.MaxLine)
	if enc := files.CharsetOf(b.cfg.Charset, path, br); enc != nil {
		br = bufio.NewReaderSize(transform.NewReader(br, enc.NewDecoder()), files.MaxLine)
	}
	if bom, _ := br.Peek(3); string(bom) == "\ufeff" {
		br.Discard(3)
	}
	if format == Auto {
		head, _ := br.Peek(files.MaxLine)
		format = guess(head)
	}
	p := &parser{b: b, src: Source{Path: path, Format: string(format)}, first: uint32(b.lines), path: make([]byte, 0, maxKey+1)}
	p.format, _ = formatOf(format)
	p.exact = p.format.exact
	if b.cfg.Subdomains != nil {
		p.exact = !*b.cfg.Subdomains
	}
	var err error
	if p.cat, err = b.categories.id(category); err != nil {
		return err
	}
	b.files = append(b.files, origin{path, p.first, b.when})
	p.before = b.used()
	if p.format.file != nil {
		err = p.format.file(p, br)
	} else {
		err = p.lines(br, p.format.line)
	}
	p.src.Marks = marking.Marks
	p.end()
	return err
}

// used returns how much was read: entries, networks, expressions and rules, duplicates included.
func (b *builder) used() int {
	n := len(b.networks) + len(b.exprs) + b.rules.n
	for i := range b.entries.parts {
		n += b.entries.parts[i].n
	}
	return n
}

// end adds the counts to the report.
func (p *parser) end() {
	b := p.b
	if p.conditions.Open() {
		p.refuse([]byte("!#if"), "has no !#endif")
	}
	if p.src.Ignored > 0 && p.format.ignored != nil {
		p.format.ignored(p)
	}
	b.lines += uint64(p.src.Lines)
	b.report.Lines += p.src.Lines
	b.report.Bad += p.src.Bad
	b.report.Ignored += p.src.Ignored
	p.src.Used = b.used() - p.before
	b.report.Sources = append(b.report.Sources, p.src)
}

// lines passes each line of a file to read.
func (p *parser) lines(r *bufio.Reader, read func(p *parser, line []byte)) error {
	for {
		s, err := r.ReadSlice('\n')
		if err == io.EOF && len(s) == 0 {
			return nil
		}
		if p.src.Lines++; p.b.lines+uint64(p.src.Lines) > maxInFile {
			return errors.New("more than 4 billion lines")
		}
		if p.src.Lines&0xfff == 0 && p.b.ctx.Err() != nil {
			return p.b.ctx.Err()
		}
		switch {
		case err == bufio.ErrBufferFull:
			p.refuse(s[:80], fmt.Sprintf("is the beginning of a line longer than %d bytes", files.MaxLine))
			for err == bufio.ErrBufferFull {
				_, err = r.ReadSlice('\n')
			}
		case p.format.free && files.HasBreak(s):
			p.refuse(files.Trim(s), files.Broken)
		case err == nil || err == io.EOF:
			read(p, files.Trim(s))
		}
		switch {
		case p.err != nil:
			return p.err
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s:%d: %w", p.src.Path, p.src.Lines, err)
		}
	}
}

// refuse counts the input s as refused.
func (p *parser) refuse(s []byte, reason string) {
	p.src.Bad++
	p.keep(Problem{File: p.src.Path, Line: p.src.Lines}, func() string { return files.Quote(s) + " " + reason })
}

// remark reports a line that is odd but used.
func (p *parser) remark(s []byte, reason string) {
	p.keep(Problem{File: p.src.Path, Line: p.src.Lines, Kept: true}, func() string { return files.Quote(s) + " " + reason })
}

// refuseWide refuses an entry that is too wide for a list from outside. One of our own stays.
func (p *parser) refuseWide(s []byte) bool {
	if p.b.cfg.Fetched {
		p.refuse(s, width.TooWide)
	} else {
		p.remark(s, width.Wide)
	}
	return p.b.cfg.Fetched
}

func (p *parser) note(line int, reason string) {
	p.keep(Problem{File: p.src.Path, Line: line, Kept: true}, func() string { return reason })
}

func (p *parser) keep(x Problem, reason func() string) {
	if p.kept < keptPerFile && len(p.b.report.Problems) < keptInAll {
		x.Reason = reason()
		p.b.report.Problems = append(p.b.report.Problems, x)
		p.kept++
	}
}

// line returns the number of the current line, counted over all files.
func (p *parser) line() uint32 { return p.first + uint32(p.src.Lines) - 1 }

// add adds an entry.
func (p *parser) add(host, path []byte, flags uint8) {
	if p.exact && len(path) == 0 {
		flags |= flagExact
	}
	if len(path) == 0 && flags&flagExact == 0 {
		public, shared := p.b.suffixes.Find(host)
		if public && p.refuseWide(host) {
			return
		}
		if shared {
			p.remark(host, width.Shared)
		}
	}
	if err := p.b.entries.add(host, path, p.cat, flags, p.line()); err != nil {
		p.err = err
	}
}

// name adds a text that must be a host.
func (p *parser) name(s []byte, flags uint8) {
	if dns.IsHost(s) {
		p.add(s, nil, flags)
		return
	}
	name, reason := files.Host(p.host[:0], s)
	p.host = name
	if reason != "" {
		p.refuse(s, reason)
		return
	}
	p.add(name, nil, flags)
}
