//go:build !small

package picture

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"shuultuur/lib/picture"
)

// Explain describes a picture in lines for people: size, features, hashes, the nearest hash of
// each list with its distance, the verdict of the model, and the time of each step. For locked
// lists it only says whether they contain the picture.
func (c *Check) Explain(ctx context.Context, b []byte) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	ms := func(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
	head, err := picture.Look(b)
	if err != nil {
		say("picture  %v", err)
		return lines
	}
	say("picture  %s, %d × %d pixels, %d bytes", head.Format, head.Width, head.Height, len(b))
	sum := sha256.Sum256(b)
	say("digests  sha256 %x, md5 %x", sum, md5.Sum(b))
	start := time.Now()
	p, err := picture.Shrink(b)
	if err != nil {
		say("unread   %v", err)
		return lines
	}
	say("decoded  at an eighth of the size in %.1f ms", ms(start))
	start = time.Now()
	s := p.Skin()
	say("skin     score %d: share %.0f %%, largest region %.0f %% (fills %.0f %% of its frame), %d regions, %.0f %% of the border, texture %.1f; %.2f ms",
		s.Score, 100*s.Share, 100*s.Largest, 100*s.Fill, s.Regions, 100*s.Border, s.Texture, ms(start))
	d := p.DHash()
	start = time.Now()
	h, quality, err := picture.PDQ(b)
	if err != nil {
		say("hashes   dhash %016x; no pdq: %v", d, err)
	} else {
		say("hashes   dhash %016x, pdq %s of quality %d; %.1f ms", d, h, quality, ms(start))
	}
	for _, f := range c.lookUpDigests(b, sum, nil) {
		say("list     %s: listed by its bytes, %s", strings.TrimPrefix(f.Category, Listed), f.Evidence)
	}
	for _, name := range c.names {
		lines = append(lines, c.lists[name].explain(name, h, quality, d)...)
	}
	if c.model == nil {
		return lines
	}
	start = time.Now()
	score, labels, err := c.model.Judge(ctx, b)
	if err != nil {
		say("model    %v", err)
		return lines
	}
	say("model    %s: score %d in %.1f ms on %s", c.model.Title(), score, ms(start), c.model.Net.Kernel())
	for _, l := range labels {
		say("         %.3f %s", l.Score, l.Name)
	}
	return lines
}

// explain describes the nearest hashes of a list, at any distance.
func (h *hashes) explain(name string, pdq picture.Hash, quality int, dhash uint64) (lines []string) {
	start := time.Now()
	nearest := func(kind string, distance, most int, line uint32) {
		listed := "not listed"
		if distance <= most {
			listed = "listed"
		}
		where := fmt.Sprintf("nearest %s at distance %d (at most %d counts), %s:%d", kind, distance, most, h.file, line)
		if h.locked {
			where = "a locked list"
		}
		lines = append(lines, fmt.Sprintf("list     %s: %s, %s; %.2f ms", name, listed, where, float64(time.Since(start).Microseconds())/1000))
	}
	if h.dhash.len() > 0 {
		at, best := h.dhash.closest(dhash)
		nearest("dhash", best, h.dhash.within, h.dhash.lines[at])
	}
	if h.pdq.len() > 0 && quality >= minQuality {
		at, best := h.pdq.closest(pdq[:]...)
		nearest("pdq", best, picture.Near, h.pdq.lines[at])
	}
	return lines
}
