package rule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// list splits a value at commas and trims the parts.
func list(v string) []string {
	parts := strings.Split(v, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// word parses the words that byte_test and similar keywords share.
func (r *Reader) word(w string) (bool, error) {
	name, arg, _ := strings.Cut(w, " ")
	arg = strings.TrimSpace(arg)
	switch name {
	case "relative":
		r.Relative = true
	case "big":
		r.Little = false
	case "little":
		r.Little = true
	case "endian":
		switch arg {
		case "big":
		case "little":
			r.Little = true
		case "dce":
			r.DCE = true
		default:
			return false, fmt.Errorf("endian %q is neither big nor little", arg)
		}
	case "string":
		r.Text = true
		if r.Base == 0 {
			r.Base = 10
		}
		if arg != "" {
			return r.word(arg)
		}
	case "dec":
		r.Base = 10
	case "hex":
		r.Base = 16
	case "oct":
		r.Base = 8
	case "dce":
		r.DCE = true
	case "bitmask":
		n, err := strconv.ParseUint(arg, 0, 32)
		if err != nil {
			return false, fmt.Errorf("bitmask %q is not a number", arg)
		}
		r.Mask = uint32(n)
	default:
		return false, nil
	}
	return true, nil
}

// option parses a word that all byte keywords share.
func (r *Reader) option(w string) error {
	ok, err := r.word(w)
	if err == nil && !ok {
		err = unknown(w)
	}
	return err
}

func (r *Reader) check() error {
	if r.Text {
		if r.Bytes.Var == 0 && (r.Bytes.N < 0 || r.Bytes.N > maxDigits) {
			return fmt.Errorf("%d bytes of digits are more than %d", r.Bytes.N, maxDigits)
		}
		return nil
	}
	if r.Bytes.Var == 0 && (r.Bytes.N < 1 || r.Bytes.N > 8) {
		return fmt.Errorf("%d bytes: a number has 1 to 8", r.Bytes.N)
	}
	return nil
}

// maxDigits is the maximal length of a number in digits: 22 octal digits and a zero.
const maxDigits = 23

func readByteTest(p *parser, o Option) error {
	ps := list(o.Value)
	if len(ps) < 4 {
		return fmt.Errorf("%q: want bytes, comparison, value, offset", o.Value)
	}
	m := &ByteTest{}
	var err error
	if m.Bytes, err = p.number(ps[0]); err != nil {
		return err
	}
	op := strings.TrimSpace(ps[1])
	if rest, ok := strings.CutPrefix(op, "!"); ok {
		m.Negated, op = true, strings.TrimSpace(rest)
		if op == "" {
			op = "="
		}
	}
	switch op {
	case "<", ">", "=", "==", "<=", ">=", "&", "^":
		m.Op = strings.TrimPrefix(op, "=")
		if op == "==" || op == "=" {
			m.Op = "="
		}
	default:
		return fmt.Errorf("%q is not a comparison; use < > = <= >= & ^", ps[1])
	}
	if m.Value, err = p.operand(ps[2]); err != nil {
		return err
	}
	if m.Offset, err = p.number(ps[3]); err != nil {
		return err
	}
	for _, w := range ps[4:] {
		if err := m.option(w); err != nil {
			return err
		}
	}
	if err := m.check(); err != nil {
		return err
	}
	if m.Text && m.Bytes == (Number{}) {
		m.Bytes.N = maxDigits // no length: any number of digits
	}
	p.add(m)
	return nil
}

func unknown(w string) error {
	return fmt.Errorf("%q has no meaning here", w)
}

func readByteJump(p *parser, o Option) error {
	ps := list(o.Value)
	if len(ps) < 2 {
		return fmt.Errorf("%q: want bytes, offset", o.Value)
	}
	m := &ByteJump{Multiplier: 1}
	var err error
	if m.Bytes, err = p.number(ps[0]); err != nil {
		return err
	}
	if m.Offset, err = p.number(ps[1]); err != nil {
		return err
	}
	for _, w := range ps[2:] {
		name, arg, _ := strings.Cut(w, " ")
		switch name {
		case "align":
			m.Align = true
		case "from_beginning":
			m.Begin = true
		case "from_end":
			m.End = true
		case "multiplier":
			if m.Multiplier, err = strconv.Atoi(strings.TrimSpace(arg)); err != nil || m.Multiplier < 1 || m.Multiplier > math.MaxUint16 {
				return fmt.Errorf("multiplier %q is not from 1 to 65535", arg)
			}
		case "post_offset":
			n, err := p.number(arg)
			if err != nil {
				return err
			}
			m.Post, m.PostVar = int(n.N), int(n.Var)
		default:
			if err := m.option(w); err != nil {
				return err
			}
		}
	}
	if m.Bytes.N != 0 || m.Bytes.Var != 0 {
		if err := m.check(); err != nil {
			return err
		}
	}
	p.add(m)
	return nil
}

func readByteExtract(p *parser, o Option) error {
	ps := list(o.Value)
	if len(ps) < 3 {
		return fmt.Errorf("%q: want bytes, offset, name", o.Value)
	}
	m := &ByteExtract{Multiplier: 1}
	var err error
	if m.Bytes, err = p.number(ps[0]); err != nil {
		return err
	}
	if m.Offset, err = p.number(ps[1]); err != nil {
		return err
	}
	for _, w := range ps[3:] {
		name, arg, _ := strings.Cut(w, " ")
		switch name {
		case "multiplier":
			if m.Multiplier, err = strconv.ParseUint(strings.TrimSpace(arg), 10, 16); err != nil {
				return fmt.Errorf("multiplier %q is not from 1 to 65535", arg)
			}
		case "align":
			if m.Align, err = strconv.Atoi(strings.TrimSpace(arg)); err != nil || m.Align != 2 && m.Align != 4 {
				return fmt.Errorf("align %q is neither 2 nor 4", arg)
			}
		default:
			if err := m.option(w); err != nil {
				return err
			}
		}
	}
	if err := m.check(); err != nil {
		return err
	}
	if m.Slot, err = p.define(ps[2]); err != nil {
		return err
	}
	p.add(m)
	return nil
}

func readByteMath(p *parser, o Option) error {
	m := &ByteMath{}
	result := ""
	for _, w := range list(o.Value) {
		name, arg, _ := strings.Cut(w, " ")
		arg = strings.TrimSpace(arg)
		var err error
		switch name {
		case "bytes":
			m.Bytes, err = p.number(arg)
		case "offset":
			m.Offset, err = p.number(arg)
		case "oper":
			if m.Op = arg; strings.Index(" + - * / << >> ", " "+arg+" ") < 0 {
				err = fmt.Errorf("%q is not an operator; use + - * / << >>", arg)
			}
		case "rvalue":
			m.Value, err = p.operand(arg)
		case "result":
			result = arg
		default:
			err = m.option(w)
		}
		if err != nil {
			return err
		}
	}
	if m.Op == "" || result == "" {
		return errors.New("want bytes, offset, oper, rvalue and result")
	}
	if m.Op == "/" && m.Value.Var == 0 && m.Value.N == 0 {
		return errors.New("it divides by 0")
	}
	if err := m.check(); err != nil {
		return err
	}
	var err error
	if m.Slot, err = p.define(result); err != nil {
		return err
	}
	p.add(m)
	return nil
}

func readBase64(p *parser, o Option) error {
	m := &Base64{}
	if o.Has {
		for _, w := range list(o.Value) {
			name, arg, _ := strings.Cut(w, " ")
			n, err := strconv.Atoi(strings.TrimSpace(arg))
			switch {
			case name == "relative":
				m.Relative = true
			case name == "bytes" && err == nil && n > 0:
				m.Bytes = n
			case name == "offset" && err == nil && n >= 0:
				m.Offset = n
			default:
				return fmt.Errorf("%q is not bytes N, offset N or relative", w)
			}
		}
	}
	p.add(m)
	p.b64 = m
	return nil
}

func readEntropy(p *parser, o Option) error {
	m := &Entropy{Op: "="}
	for _, w := range list(o.Value) {
		name, arg, _ := strings.Cut(w, " ")
		arg = strings.TrimSpace(arg)
		var err error
		switch name {
		case "bytes":
			m.Bytes, err = strconv.Atoi(arg)
		case "offset":
			m.Offset, err = strconv.Atoi(arg)
		case "value":
			not := false
			if rest, ok := strings.CutPrefix(arg, "!"); ok && !strings.HasPrefix(arg, "!=") {
				not, arg = true, strings.TrimSpace(rest)
				m.Op = "!="
			}
			for _, op := range []string{">=", "<=", "!=", ">", "<", "="} {
				if rest, ok := strings.CutPrefix(arg, op); ok {
					m.Op, arg = op, strings.TrimSpace(rest)
					break
				}
			}
			if a, b, ok := strings.Cut(arg, "-"); ok {
				m.Op = "<>"
				if not {
					m.Op = "!<>"
				}
				if m.High, err = strconv.ParseFloat(strings.TrimSpace(b), 64); err != nil {
					return fmt.Errorf("%q is not a number", b)
				}
				arg = strings.TrimSpace(a)
			}
			m.Value, err = strconv.ParseFloat(arg, 64)
		default:
			return unknown(w)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", w, err)
		}
	}
	p.add(m)
	return nil
}

func readLua(p *parser, o Option) error {
	v, neg := unquote(o.Value)
	if v == "" {
		return errors.New("the file is missing")
	}
	if err := CheckName(v); err != nil {
		return err
	}
	m := &Lua{File: v, Negated: neg}
	if p.cur != nil {
		p.add(m)
		return nil
	}
	p.rule.Conditions = append(p.rule.Conditions, m)
	return nil
}

func readDataset(p *parser, o Option) error {
	ps := list(o.Value)
	m := &Dataset{IsRep: o.Name == "datarep"}
	if m.IsRep {
		if len(ps) < 3 {
			return fmt.Errorf("%q: want name, comparison, value", o.Value)
		}
		m.Command, m.Name = "rep", ps[0]
		c, err := ParseCompare(strings.TrimPrefix(ps[1], "=") + ps[2])
		if err != nil {
			return err
		}
		m.Rep, ps = &c, ps[3:]
	} else {
		if len(ps) < 2 {
			return fmt.Errorf("%q: want command, name", o.Value)
		}
		m.Command, m.Name, ps = ps[0], ps[1], ps[2:]
		if strings.Index(" isset isnotset set unset ", " "+m.Command+" ") < 0 {
			return fmt.Errorf("%q is not isset, isnotset, set or unset", m.Command)
		}
	}
	for _, w := range ps {
		name, arg, _ := strings.Cut(w, " ")
		arg = strings.TrimSpace(arg)
		switch name {
		case "load", "save", "state":
			if err := CheckName(arg); err != nil {
				return err
			}
		}
		switch name {
		case "type":
			m.Type = arg
		case "load":
			m.Load = arg
		case "save":
			m.Save = arg
		case "state":
			m.Load, m.Save = arg, arg
		case "format":
			m.Format = arg
		case "value_key":
			m.ValueKey = arg
		case "array_key":
			m.ArrayKey = arg
		case "context_key", "enrichment_key":
			m.Enrichment = arg
		case "remove_key":
			m.RemoveKey = true
		case "match":
			if arg != "subdomain" {
				return fmt.Errorf("match %q is not subdomain", arg)
			}
			m.Subdomain = true
		case "memcap", "hashsize":
		default:
			return unknown(w)
		}
	}
	switch m.Type {
	case "", "string", "md5", "sha256", "ipv4", "ip":
	default:
		return fmt.Errorf("type %q is not string, md5, sha256, ipv4 or ip", m.Type)
	}
	if p.cur == nil {
		return errors.New("it needs a sticky buffer before it, such as http.host or ip.src")
	}
	p.add(m)
	return nil
}

func readFlow(p *parser, o Option) error {
	f := &Flow{}
	for _, w := range list(o.Value) {
		switch strings.ToLower(w) {
		case "to_server", "from_client":
			f.Direction |= ToServer
		case "to_client", "from_server":
			f.Direction |= ToClient
		case "established":
			f.Established = true
		case "not_established":
			f.NotEstablished = true
		case "stateless":
			f.Stateless = true
		case "only_stream":
			f.OnlyStream = true
		case "no_stream":
			f.NoStream = true
		case "only_frag":
			f.OnlyFrag = true
		case "no_frag":
			f.NoFrag = true
		default:
			return fmt.Errorf("%q is not to_server, to_client, established, not_established, stateless, only_stream or no_stream", w)
		}
	}
	if f.Direction == Both {
		return errors.New("to_server and to_client exclude each other; use => for rules on both")
	}
	switch {
	case f.Established && f.NotEstablished, f.Stateless && (f.Established || f.NotEstablished):
		return errors.New("established, not_established and stateless exclude each other")
	case f.OnlyStream && f.NoStream:
		return errors.New("only_stream and no_stream exclude each other")
	case f.OnlyFrag && f.NoFrag:
		return errors.New("only_frag and no_frag exclude each other")
	}
	same, ok := p.flows[*f]
	if !ok {
		same = f
		p.flows[*f] = f
	}
	p.rule.Conditions = append(p.rule.Conditions, same)
	return nil
}

func readBit(p *parser, o Option) error {
	ps := list(o.Value)
	b := &Bit{Kind: strings.TrimSuffix(o.Name, "bits"), Command: ps[0]}
	switch b.Command {
	case "noalert":
		p.rule.NoAlert = true
		return nil
	case "set", "unset", "toggle", "isset", "isnotset":
	default:
		return fmt.Errorf("%q is not set, unset, toggle, isset, isnotset or noalert", b.Command)
	}
	if len(ps) < 2 || ps[1] == "" {
		return errors.New("the name is missing")
	}
	for n := range strings.SplitSeq(ps[1], "|") {
		b.Names = append(b.Names, strings.TrimSpace(n))
	}
	if len(b.Names) > 1 && b.Sets() {
		return errors.New("only isset and isnotset take alternatives")
	}
	for _, w := range ps[2:] {
		name, arg, _ := strings.Cut(w, " ")
		switch name {
		case "track":
			b.Track = strings.TrimSpace(arg)
		case "expire":
			n, err := strconv.Atoi(strings.TrimSpace(arg))
			if err != nil || n <= 0 {
				return fmt.Errorf("expire %q is not a number of seconds", arg)
			}
			b.Expire = n
		case "src", "dst", "both":
			b.Track = name
		default:
			return unknown(w)
		}
	}
	if b.Kind == "x" {
		switch b.Track {
		case "ip_src", "ip_dst", "ip_pair", "tx":
		default:
			return fmt.Errorf("track %q is not ip_src, ip_dst, ip_pair or tx", b.Track)
		}
	}
	p.rule.Conditions = append(p.rule.Conditions, b)
	return nil
}

func readInt(p *parser, o Option) error {
	ps := list(o.Value)
	if len(ps) < 2 || ps[0] == "" {
		return errors.New("want name, operator and value")
	}
	i := &Int{Name: ps[0], Op: ps[1]}
	switch i.Op {
	case "isset", "isnotset", "notset":
		p.rule.Conditions = append(p.rule.Conditions, i)
		return nil
	case "+", "-", "=", "==", "!=", "<", ">", "<=", ">=":
	default:
		return fmt.Errorf("%q is not + - = == != < > <= >= isset or isnotset", i.Op)
	}
	if len(ps) < 3 || ps[2] == "" {
		return errors.New("the value is missing")
	}
	if n, err := strconv.ParseUint(ps[2], 10, 32); err == nil {
		i.Value = uint32(n)
	} else {
		i.Var = ps[2]
	}
	p.rule.Conditions = append(p.rule.Conditions, i)
	return nil
}

func readVar(p *parser, o Option) error {
	name, v, ok := strings.Cut(o.Value, ",")
	if !ok {
		return errors.New("want name, value")
	}
	text, neg := unquote(strings.TrimSpace(v))
	pat, err := ParsePattern(text)
	if err != nil {
		return err
	}
	p.rule.Conditions = append(p.rule.Conditions, &Var{Scope: strings.TrimSuffix(o.Name, "var"), Name: strings.TrimSpace(name), Value: pat, Negated: neg})
	return nil
}

func readThreshold(p *parser, o Option) error {
	v, _, _ := strings.Cut(o.Value, "reference:") // published rules forget a semicolon
	t, err := ParseThreshold(v)
	if err != nil {
		return err
	}
	period := "seconds"
	if t.Type == "backoff" {
		period = "multiplier"
	}
	for _, part := range []string{"count", period} {
		if !strings.Contains(v, part+" ") {
			return fmt.Errorf("%s is missing", part)
		}
	}
	if o.Name == "detection_filter" {
		t.Type = "detection_filter"
	}
	switch t.Type {
	case "limit", "threshold", "both", "backoff", "detection_filter":
	default:
		return fmt.Errorf("type %q is not limit, threshold, both or backoff", t.Type)
	}
	if t.Track == "" {
		return errors.New("track is missing")
	}
	p.rule.Conditions = append(p.rule.Conditions, t)
	return nil
}

// ParseThreshold parses "type limit, track by_src, count 1, seconds 60" and the other words of
// threshold, detection_filter and threshold.config.
func ParseThreshold(v string) (*Threshold, error) {
	t := &Threshold{Count: 1}
	for _, w := range SplitGroup(v) {
		name, arg, _ := strings.Cut(w, " ")
		arg = strings.TrimSpace(arg)
		var err error
		switch name {
		case "type":
			t.Type = arg
		case "track":
			arg, _, _ = strings.Cut(arg, " ")
			t.Track = arg
			switch arg {
			case "by_src", "by_dst", "by_both", "by_rule", "by_flow", "by_either":
			default:
				return nil, fmt.Errorf("track %q is not by_src, by_dst, by_both, by_rule or by_flow", arg)
			}
		case "count":
			t.Count, err = strconv.Atoi(arg)
		case "seconds":
			t.Seconds, err = strconv.Atoi(arg)
		case "multiplier":
			t.Multiplier, err = strconv.Atoi(arg)
		case "timeout":
			t.Timeout, err = strconv.Atoi(arg)
		case "unique_on":
			if t.UniqueOn = arg; arg != "src_port" && arg != "dst_port" {
				return nil, fmt.Errorf("unique_on %q is neither src_port nor dst_port", arg)
			}
		case "new_action":
			t.NewAction = arg
		case "ip":
			t.Addresses = arg
		case "":
		default:
			return nil, unknown(w)
		}
		if err != nil || t.Count < 0 || t.Seconds < 0 {
			return nil, fmt.Errorf("%s %q is not a number", name, arg)
		}
	}
	return t, nil
}

// SplitGroup splits at commas outside brackets. It ignores an empty part after the last comma.
func SplitGroup(v string) (parts []string) {
	depth, from := 0, 0
	for i := range len(v) {
		switch v[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(v[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(v[from:]); last != "" {
		parts = append(parts, last)
	}
	return parts
}

func readWord(p *parser, o Option) error {
	v, neg := unquote(o.Value)
	switch o.Name {
	case "flags", "tcp.flags", "fragbits", "ip_proto", "l3_proto": // the negation is part of the value: what has no flags does not lack any
		if neg {
			v, neg = "!"+v, false
		}
	}
	p.rule.Conditions = append(p.rule.Conditions, &Word{Keyword: o.Name, Value: v, Negated: neg})
	return nil
}

// readTag parses what is to be recorded after a match: of the connection or the host, how much, of which
// side.
func readTag(p *parser, o Option) error {
	ps := list(o.Value)
	if ps[0] != "session" && ps[0] != "host" {
		return fmt.Errorf("%q is neither session nor host", ps[0])
	}
	if len(ps) == 2 || len(ps) > 4 {
		return fmt.Errorf("%q: want session or host, a number, packets or bytes or seconds, and src or dst", o.Value)
	}
	if len(ps) > 2 {
		if _, err := strconv.ParseUint(ps[1], 10, 32); err != nil {
			return fmt.Errorf("%q is not a number of packets, bytes or seconds", ps[1])
		}
		if ps[2] != "packets" && ps[2] != "bytes" && ps[2] != "seconds" {
			return fmt.Errorf("%q is none of packets, bytes and seconds", ps[2])
		}
	}
	if len(ps) > 3 && ps[3] != "src" && ps[3] != "dst" {
		return fmt.Errorf("%q is neither src nor dst", ps[3])
	}
	return readWord(p, o)
}

// readFileStore parses which files are to be kept after a match: those of a direction, and how many.
func readFileStore(p *parser, o Option) error {
	if !o.Has {
		return readWord(p, o)
	}
	ps := list(o.Value)
	switch ps[0] {
	case "request", "to_server", "response", "to_client", "both":
	default:
		return fmt.Errorf("%q is none of request, response and both", ps[0])
	}
	if len(ps) > 2 {
		return fmt.Errorf("%q: want a direction and a scope", o.Value)
	}
	if len(ps) == 2 {
		switch ps[1] {
		case "file", "tx", "ssn", "flow":
		default:
			return fmt.Errorf("%q is none of file, tx and flow", ps[1])
		}
	}
	return readWord(p, o)
}

// readDigests parses a keyword that names a list of digests.
func readDigests(p *parser, o Option) error {
	v, _ := unquote(o.Value)
	return cmp.Or(CheckName(v), readWord(p, o))
}

func readEvent(p *parser, o Option) error {
	v, neg := unquote(o.Value)
	if !noticed(o.Name, v) {
		p.rule.Foreign = append(p.rule.Foreign, o.Name+":"+v)
	}
	p.rule.Conditions = append(p.rule.Conditions, &Event{Kind: o.Name, Name: v, Negated: neg})
	return nil
}

// readFrame opens a frame, whose name may leave out the protocol of the rule.
func readFrame(p *parser, o Option) error {
	v, _ := unquote(o.Value)
	app := p.rule.Proto
	if app == "http" {
		app = "http1"
	}
	protocol, _, whole := strings.Cut(v, ".")
	if !whole {
		protocol, v = app, app+"."+v
	}
	b, ok := frames[v]
	switch {
	case ok:
		return p.open(b, o)
	case v == "" || strings.HasSuffix(v, "."):
		return errors.New("the name of the frame is missing")
	}
	for name := range frames {
		if strings.HasPrefix(name, protocol+".") {
			return fmt.Errorf("%s has no frame %q", protocol, v)
		}
	}
	p.rule.Foreign = append(p.rule.Foreign, "frame:"+v)
	return p.open(OtherBuffer, o)
}

// readInteger parses a keyword that compares an integer: a condition and, for keywords with
// several values, which of them must match.
func readInteger(p *parser, o Option) error {
	ps := list(o.Value)
	m := &Integer{Keyword: o.Name}
	first := ps[0]
	switch {
	case strings.HasPrefix(first, "count"):
		c, err := ParseCompare(strings.TrimPrefix(first, "count"))
		if err != nil {
			return err
		}
		m.Index, m.Count = "count", c
	case first == "absent":
		m.Absent = true
	default:
		c, err := ParseCompare(first)
		if err != nil {
			names := map[string]map[string]uint64{"http2.frametype": http2Frames, "http2.errorcode": http2Errors, "dns.rrtype": rrTypes, "dns.rcode": rcodes, "websocket.opcode": opcodes}[o.Name]
			name, neg := unquote(first)
			n, ok := names[strings.ToLower(name)]
			if !ok {
				return err
			}
			c = Compare{Op: "=", A: n}
			if neg {
				c.Op = "!="
			}
		}
		m.Compare = c
	}
	for _, w := range ps[1:] {
		switch {
		case w == "raw" || w == "norm":
			if w == "raw" {
				m.Keyword += ".raw"
			}
		case w == "any" || w == "all" || w == "all1" || w == "all_or_absent":
			m.Index = w
		case w == "or_absent":
			m.OrAbsent = true
		case strings.HasPrefix(w, "oob_or"):
			n, err := strconv.Atoi(strings.TrimSpace(w[len("oob_or"):]))
			if err != nil {
				return fmt.Errorf("%q is not a position", w)
			}
			m.Index, m.Position, m.OrAbsent = "at", n, true
		case strings.HasPrefix(w, "nb"):
			c, err := ParseCompare(w[2:])
			if err != nil {
				return err
			}
			m.Index, m.Count = "nb", c
		default:
			if a, b, ok := strings.Cut(w, ":"); ok { // a range of positions
				x, e1 := strconv.Atoi(orZero(a))
				y, e2 := strconv.Atoi(orZero(b))
				if e1 != nil || e2 != nil {
					return fmt.Errorf("%q is not from:to", w)
				}
				m.Position, m.Count.B = x, uint64(int64(y))
				m.Count.Op += "|slice"
				continue
			}
			n, err := strconv.Atoi(w)
			if err != nil {
				return unknown(w)
			}
			m.Index, m.Position = "at", n
		}
	}
	p.rule.Conditions = append(p.rule.Conditions, m)
	return nil
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

var (
	http2Frames = map[string]uint64{"data": 0, "headers": 1, "priority": 2, "rststream": 3, "rst_stream": 3, "settings": 4, "pushpromise": 5, "push_promise": 5, "ping": 6, "goaway": 7, "windowupdate": 8, "window_update": 8, "continuation": 9}
	http2Errors = map[string]uint64{"no_error": 0, "protocol_error": 1, "internal_error": 2, "flow_control_error": 3, "settings_timeout": 4, "stream_closed": 5, "frame_size_error": 6, "refused_stream": 7, "cancel": 8, "compression_error": 9, "connect_error": 10, "enhance_your_calm": 11, "inadequate_security": 12, "http_1_1_required": 13}
	rcodes      = map[string]uint64{"noerror": 0, "formerr": 1, "servfail": 2, "nxdomain": 3, "notimp": 4, "refused": 5, "yxdomain": 6, "yxrrset": 7, "nxrrset": 8, "notauth": 9, "notzone": 10}
	rrTypes     = map[string]uint64{"a": 1, "ns": 2, "cname": 5, "soa": 6, "null": 10, "wks": 11, "ptr": 12, "hinfo": 13, "mx": 15, "txt": 16, "rp": 17, "sig": 24, "key": 25, "aaaa": 28, "loc": 29, "srv": 33, "naptr": 35, "cert": 37, "dname": 39, "opt": 41, "ds": 43, "sshfp": 44, "rrsig": 46, "nsec": 47, "dnskey": 48, "dhcid": 49, "nsec3": 50, "nsec3param": 51, "tlsa": 52, "svcb": 64, "https": 65, "spf": 99, "tkey": 249, "tsig": 250, "axfr": 252, "any": 255, "uri": 256, "caa": 257}
	opcodes     = map[string]uint64{"continuation": 0, "text": 1, "binary": 2, "connection_close": 8, "ping": 9, "pong": 10}
)
