package message

import "bytes"

// NewRequest makes a request by hand: for tests, and for what came by another
// way than HTTP/1. target is in one of the four forms; where it names a host,
// a Host field is added. Proto is 11.
func NewRequest(method, target string) (*Request, error) {
	q := &Request{Method: method, Target: []byte(target), Proto: 11}
	if method == "" || !all([]byte(method), tokenByte) {
		return nil, bad("malformed method")
	}
	if target == "" || !all(q.Target, targetByte) {
		return nil, bad("malformed request target")
	}
	if err := q.parseTarget(); err != nil {
		return nil, err
	}
	switch q.Form {
	case Authority:
		q.Add("Host", target)
	case Absolute:
		_, rest, _ := bytes.Cut(q.Target, []byte("://"))
		if n := bytes.IndexAny(rest, "/?"); n >= 0 {
			rest = rest[:n]
		}
		q.Add("Host", string(rest))
	}
	return q, nil
}

// NewResponse makes a response by hand, without fields and body.
func NewResponse(status int, reason string) *Response {
	return &Response{Status: status, Reason: []byte(reason), Proto: 11}
}
