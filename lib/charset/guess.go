package charset

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"shuultuur/lib/ascii"
)

// This file determines the charset of a text without a declared one as browsers do: by the
// likelihood of its bytes in each language that is written in a charset. A language is
// represented only by its letters, most frequent first. The n-th is assumed to have the
// frequency 1/n, which suffices to distinguish charsets by a line of text.

// ASCIILen returns the number of bytes at the beginning of p that mean the same in every
// common charset: neither bytes from 0x80 nor the escape that begins other sets in
// ISO-2022-JP.
func ASCIILen(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		w := binary.LittleEndian.Uint64(p[i:])
		esc := w ^ 0x1B1B1B1B1B1B1B1B
		if (w|(esc-0x0101010101010101)&^esc)&0x8080808080808080 != 0 {
			break
		}
	}
	for ; i < len(p) && p[i] < 0x80 && p[i] != 0x1B; i++ {
	}
	return i
}

// Guess determines the charset from a sample of a text that has non-ASCII bytes. It returns
// nil for UTF-8, and if no charset is likely.
func Guess(p []byte) encoding.Encoding {
	if is2022JP(p) {
		return ISO2022JP
	}
	if mostlyUTF8(p) {
		return nil
	}
	best, most := encoding.Encoding(nil), math.Inf(-1)
	for _, l := range likelySingles() {
		if s := l.score(p); s > most {
			best, most = l.charset, s
		}
	}
	for _, l := range pairs() {
		if s := l.score(p); s > most {
			best, most = l.charset, s
		}
	}
	if best == encoding.Encoding(Windows1252) {
		return nil
	}
	return best
}

// mostlyUTF8 reports whether the bytes of p from 0x80 are UTF-8, with few exceptions.
func mostlyUTF8(p []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(p); {
		if p[i] < 0x80 {
			i++
			continue
		}
		_, n := utf8.DecodeRune(p[i:])
		switch {
		case n > 1:
			good++
		case !utf8.FullRune(p[i:]): // the sample is truncated
			return good > 8*bad
		default:
			bad++
		}
		i += n
	}
	return good >= 8*bad
}

// is2022JP reports whether p has escapes of ISO-2022-JP followed by Japanese: at least a
// quarter of kana.
func is2022JP(p []byte) bool {
	kana, others := 0, 0
	for {
		i := bytes.IndexByte(p, 0x1B)
		if i < 0 || len(p) < i+3 {
			return kana > 0 && kana*4 >= others
		}
		if ASCIILen(p[:i]) < i {
			return false
		}
		p = p[i+1:]
		if p[0] != '$' || p[1] != '@' && p[1] != 'B' {
			continue
		}
		for p = p[2:]; len(p) > 1 && p[0] > 0x20 && p[0] < 0x7F; p = p[2:] {
			if p[0] == '$' || p[0] == '%' {
				kana++
			} else {
				others++
			}
		}
	}
}

// Likelihoods of characters that are not letters of a language, as natural logarithms.
const (
	logPunctuation = -4.0  // quotes, dashes and the like, which all languages use
	logStranger    = -7.0  // a letter or sign of another language
	logUndefined   = -14.0 // undefined
	logMixed       = -3.0  // added for a letter of a kind that should not be there
)

// A singleCharset is a language in a single-byte charset.
type singleCharset struct {
	charset encoding.Encoding
	log     [256]float32
	latin   bool // ASCII letters appear next to those from 0x80
	small   [256]bool
	big     [256]bool
}

// languages by the charsets they are written in.
var languages = []struct {
	charsets []*Single
	latin    bool
	letters  []string
}{
	{[]*Single{Windows1251, KOI8U, IBM866, ISO8859_5}, false, []string{
		"оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",
		"оанивіертсклудмпзяьгбчйхцжїєшющфґ",
		"аоиетнсрвлкдпмзубгчщцжюхйшфьъя",
		"аоиенртсвуклјмдпзбгчцњшжљхћђфџ",
		"аэноидгрлтсыуйхбөүвмшзчкежяюпцёф",
	}},
	{[]*Single{Windows1253, ISO8859_7}, false, []string{"ατοιενσρκπμλςυηγδίάχόέωθήφβξύώζψϊϋΐΰ"}},
	{[]*Single{Windows1255}, false, []string{"יוהלאמתברשנםקדעחפכסטגןצזץףך"}},
	{[]*Single{Windows1256, ISO8859_6}, false, []string{"اليمنورتبهعةدسفحقكجصشطخأذغضثإظىئءؤآ", "اینردمهوتسبلشکگپچخزفقعحجصآطضژذظغثئ"}},
	{[]*Single{Windows874}, false, []string{"านร่อกเง้มยลวดทส์ตะีปบคิหัแจพชขใไโุผูถซณึืำ็ธศญฉษฎฐภฝฟฬฆๆๅฤฯ๊๋"}},
	{[]*Single{Windows1250, ISO8859_2}, true, []string{
		"łęóąśżćńź",
		"íáéěřščžýůúňťóď",
		"áéóöőíüúű",
		"áíéčšžýúľťňôóäďŕĺ",
		"čšžćđ",
		"ăîâşţ",
	}},
	{[]*Single{Windows1254}, true, []string{"ışüğçöİâî"}},
	{[]*Single{Windows1257}, true, []string{"šėžųįčąūęõäöü", "āīēšņļžūčķģ"}},
	{[]*Single{Windows1258}, true, []string{"đươáàạóốơêôâăìúếệ"}},
	{[]*Single{Windows1252}, true, []string{
		"éèàçêôîûëùïœ",
		"äüößéà",
		"óíáéñúü¿¡",
		"ãçáéíóêõâúàô",
		"åäöé",
		"øåæéö",
		"àèùòìé",
		"áíðóæéöþúý",
	}},
}

// likelySingles builds the tables when they are first needed.
var likelySingles = sync.OnceValue(func() (all []singleCharset) {
	for _, l := range languages {
		for _, m := range l.charsets {
			for _, letters := range l.letters {
				all = append(all, newSingle(m, l.latin, letters))
			}
		}
	}
	return all
})

func newSingle(m *Single, latin bool, letters string) singleCharset {
	s := singleCharset{charset: m, latin: latin}
	n, sum := utf8.RuneCountInString(letters), 0.0
	for i := range n {
		sum += 1 / float64(i+1)
	}
	rank := func(r rune) (int, bool) {
		i := strings.IndexRune(letters, r)
		return utf8.RuneCountInString(letters[:max(i, 0)]), i >= 0
	}
	for c := 0x80; c < 0x100; c++ {
		r := m.Decode(byte(c))
		low := unicode.ToLower(r)
		at, known := rank(low)
		switch {
		case r == utf8.RuneError || unicode.IsControl(r):
			s.log[c] = logUndefined
		case known:
			s.log[c] = float32(math.Log(0.9 / sum / float64(at+1)))
			if r != low {
				s.log[c] -= 2
			}
		case strings.ContainsRune("“”‘’„–—…«»©®°·€§№\u00a0", r):
			s.log[c] = logPunctuation
		default:
			s.log[c] = logStranger
		}
		s.small[c] = known && r == low && low != unicode.ToUpper(r)
		s.big[c] = known && r != low
	}
	return s
}

// score returns the likelihood of p per byte from 0x80.
func (s *singleCharset) score(p []byte) float64 {
	total, n := 0.0, 0
	before := byte(' ')
	for i, c := range p {
		if c >= 0x80 {
			n++
			total += float64(s.log[c])
			next := byte(' ')
			if i+1 < len(p) {
				next = p[i+1]
			}
			switch {
			case s.latin:
				if before >= 0x80 && s.log[before] > logStranger && s.log[c] > logStranger && s.log[c] != logPunctuation {
					total += logMixed / 2
				}
			case s.log[c] > logStranger && s.log[c] != logPunctuation && (ascii.IsLetter(before) || ascii.IsLetter(next)):
				total += logMixed
			case s.big[c] && s.small[before]:
				total += logMixed
			}
		}
		before = c
	}
	return total / float64(max(n, 1))
}

// A pair is a language in a double-byte charset.
type pair struct {
	charset encoding.Encoding
	top     map[rune]float32 // its most frequent characters
	log     func(r rune, lead byte) float32
}

// The most frequent characters, except those that are recognised by their block.
const (
	topHans = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运赌博示例页网站"
	topHant = "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山金指克許統區保至隊形社便空決治展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該交規萬取拉格望覺術領共確傳師觀清今切院讓識候帶導爭運賭博示例頁網站"
	topJa   = "日一大年人国本中会上事出長者生行時見分学後気自前手間思高場私新今目何方合名円田地社部対内東体力度下的性最東店通作話入可用信注文書情報商品検索画像無料"
	topKo   = "이다는에가을의고로지하사기은도리를한어나자아인시라있대서해수일정부그장제전보만주상구게것들과원으성성없면여까지안세경비소동스조국유오공신관했우개미화연교선회등무방모학년적실조금말마식위계되생내와인용업발드때각음문물분간통행본당민바러음르천트터니너저요할양"
)

var pairs = sync.OnceValue(func() []pair {
	kana := func(r rune) bool { return r >= 0x3041 && r <= 0x3096 || r >= 0x30A1 && r <= 0x30FC }
	punctuation := func(r rune) bool {
		return r >= 0x3000 && r <= 0x3011 || r >= 0xFF01 && r <= 0xFF5E || strings.ContainsRune("“”‘’—…·", r)
	}
	// Logarithms are for two bytes, because other charsets have a letter in each.
	ja := func(r rune, _ byte) float32 {
		switch {
		case kana(r):
			return -3.5
		case punctuation(r):
			return -4
		case unicode.Is(unicode.Han, r):
			return -10
		}
		return 2 * logStranger
	}
	zh := func(common byte) func(rune, byte) float32 {
		return func(r rune, lead byte) float32 {
			switch {
			case punctuation(r):
				return -4
			case !unicode.Is(unicode.Han, r):
				return 2 * logStranger
			case lead <= common:
				return -9.5
			}
			return -13
		}
	}
	ko := func(r rune, _ byte) float32 {
		switch {
		case unicode.Is(unicode.Hangul, r):
			return -8.5
		case punctuation(r):
			return -4
		}
		return -13
	}
	top := func(s string, log float32) map[rune]float32 {
		m := make(map[rune]float32)
		for _, r := range s {
			m[r] = log
		}
		return m
	}
	hans, hant, japanse := top(topHans, -5), top(topHant, -5), top(topJa, -5.5)
	return []pair{
		{GB18030, hans, zh(0xD7)},
		{Big5, hant, zh(0xC6)},
		{ShiftJIS, japanse, ja},
		{EUCJP, japanse, ja},
		{EUCKR, top(topKo, -4.5), ko},
	}
})

// score returns the likelihood of p per byte from 0x80, including the bytes below that are
// second bytes.
func (l *pair) score(p []byte) float64 {
	total, n := 0.0, 0
	d := l.charset.NewDecoder()
	var dst [8]byte
	for i := 0; i < len(p); {
		if p[i] < 0x80 {
			i++
			continue
		}
		d.Reset()
		// One character: the shortest input that decodes to one.
		size := 0
		for k := 1; k <= 4 && i+k <= len(p); k++ {
			nDst, nSrc, err := d.Transform(dst[:], p[i:i+k], false)
			if err == nil && nSrc > 0 && nDst > 0 {
				size = nSrc
				break
			}
		}
		if size == 0 {
			break // truncated at the end of the sample
		}
		r, _ := utf8.DecodeRune(dst[:])
		n += size
		log, ok := l.top[r]
		switch {
		case ok:
			total += float64(log)
		case r == utf8.RuneError:
			total += logUndefined
		case size == 1: // half-width katakana and the like
			total += logStranger
		default:
			total += float64(l.log(r, p[i])) * float64(size) / 2
		}
		i += size
	}
	return total / float64(max(n, 1))
}

// wideSample is the number of bytes that suffice to recognise UTF-16.
const wideSample = 1 << 10

// GuessUTF16 returns the UTF-16 encoding that p seems to have, nil if it does not: at least half of
// its characters must be usual ones, and more than in the other byte order. Of random bytes
// one in fourteen is usual.
func GuessUTF16(p []byte) encoding.Encoding {
	p = p[:min(len(p), wideSample)&^1]
	if len(p) < 8 {
		return nil
	}
	little, big := 0, 0
	for i := 0; i < len(p); i += 2 {
		if isUsual(rune(p[i]) | rune(p[i+1])<<8) {
			little++
		}
		if isUsual(rune(p[i+1]) | rune(p[i])<<8) {
			big++
		}
	}
	switch half := (len(p)/2 + 1) / 2; {
	case little >= half && little > big:
		return UTF16LE
	case big >= half && big > little:
		return UTF16BE
	}
	return nil
}

// isUsual reports whether a character is usual in texts: letters of alphabets, and the most
// frequent ones of Chinese, Japanese and Korean.
func isUsual(r rune) bool {
	switch {
	case r < 0x250:
		return r >= ' ' && r < 0x7F || r >= 0xA0 || r == '\n' || r == '\r' || r == '\t'
	case r >= 0x370 && r < 0x700, r >= 0x900 && r < 0xE80, r >= 0x1E00 && r < 0x2000, r >= 0x2010 && r < 0x2030, r >= 0x3000 && r < 0x3100, r >= 0xFF00 && r < 0xFF60:
		return true
	case r >= 0x3400 && r < 0xD7A4:
		for _, l := range pairs() {
			if _, ok := l.top[r]; ok {
				return true
			}
		}
	}
	return false
}
