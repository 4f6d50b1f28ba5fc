package rule

// A Buffer is a part of a message or packet that matches inspect.
type Buffer uint8

// The buffers. Payload is the payload of a packet, or the stream.
const (
	Payload Buffer = iota
	URI
	URIRaw
	Method
	Host
	HostRaw
	UserAgent
	Referer
	Cookie
	Accept
	AcceptLang
	AcceptEnc
	Connection
	ContentType
	ContentLen
	Server
	Location
	HeaderAll
	HeaderRaw
	HeaderNames
	RequestHeader
	ResponseHeader
	Start
	RequestLine
	ResponseLine
	Protocol
	StatCode
	StatMsg
	RequestBody
	ResponseBody
	FileData
	FileName
	FileMagic
	HTTP2HeaderName
	WebSocketPayload
	SNI
	CertSubject
	CertIssuer
	CertSerial
	CertFingerprint
	CertAltName
	Certs
	ALPN
	Random
	RandomTime
	RandomBytes
	JA3Hash
	JA3String
	JA3SHash
	JA3SString
	JA4Hash
	DNSQuery
	DNSQueriesName
	DNSAnswersName
	DNSAuthoritiesName
	DNSAdditionalsName
	DNSResponseName
	IPSrc
	IPDst
	IPv4Header
	IPv6Header
	TCPHeader
	UDPHeader
	ICMPv4Header
	ICMPv6Header
	Base64Data
	HTTP1RequestFrame // the first frame
	HTTP1ResponseFrame
	HTTP2Frame
	HTTP2HeadFrame
	HTTP2DataFrame
	TLSFrame
	TLSHeadFrame
	TLSDataFrame
	TLSAlertFrame
	TLSHeartbeatFrame
	SSL2Frame
	DNSFrame
	SMTPCommandFrame
	SMTPReplyFrame
	SMTPDataFrame // the last frame
	Helo
	MailFrom
	RcptTo
	EmailFrom
	EmailSubject
	EmailTo
	EmailCc
	EmailDate
	EmailMessageID
	EmailMailer
	EmailURL
	EmailReceived
	EmailBodyMD5
	FTPCommand
	FTPCommandData
	FTPReply
	FTPCode
	QUICVersion
	QUICSNI
	QUICAgent
	SSHProtocol
	SSHSoftware
	SSHHassh
	SSHHasshText
	SSHServerHassh
	SSHServerHasshText
	OtherBuffer // of a protocol that is not supported
	Buffers     // their number
)

// A Progress is how much of a message is known. A buffer is complete from its progress on.
type Progress uint8

// The steps of a message in one direction.
const (
	NotStarted Progress = iota
	Line                // first line, or a complete DNS or TLS message
	Headers
	Body // part of the body
	Trailer
	Complete
)

// A BufferInfo has the properties of a buffer.
type BufferInfo struct {
	Name      string
	Direction Direction
	Progress  Progress
	Multi     bool // has several elements
	Protocol  string
	Lower     bool // always lower case: nocase and capitals are mistakes
	Priority  int  // 2 is usual; higher numbers are worse for a fast pattern
	Packet    bool // needs packets
}

var buffers = [Buffers]BufferInfo{
	Payload:            {"payload", Both, Line, false, "", false, 3, false},
	URI:                {"http.uri", ToServer, Line, false, "http", false, 2, false},
	URIRaw:             {"http.uri.raw", ToServer, Line, false, "http", false, 2, false},
	Method:             {"http.method", ToServer, Line, false, "http", false, 4, false},
	Host:               {"http.host", ToServer, Headers, false, "http", true, 2, false},
	HostRaw:            {"http.host.raw", ToServer, Headers, false, "http", false, 2, false},
	UserAgent:          {"http.user_agent", ToServer, Headers, false, "http", false, 2, false},
	Referer:            {"http.referer", ToServer, Headers, false, "http", false, 2, false},
	Cookie:             {"http.cookie", Both, Headers, false, "http", false, 2, false},
	Accept:             {"http.accept", ToServer, Headers, false, "http", false, 2, false},
	AcceptLang:         {"http.accept_lang", ToServer, Headers, false, "http", false, 2, false},
	AcceptEnc:          {"http.accept_enc", ToServer, Headers, false, "http", false, 2, false},
	Connection:         {"http.connection", Both, Headers, false, "http", false, 2, false},
	ContentType:        {"http.content_type", Both, Headers, false, "http", false, 2, false},
	ContentLen:         {"http.content_len", Both, Headers, false, "http", false, 2, false},
	Server:             {"http.server", ToClient, Headers, false, "http", false, 2, false},
	Location:           {"http.location", ToClient, Headers, false, "http", false, 2, false},
	HeaderAll:          {"http.header", Both, Headers, false, "http", false, 2, false},
	HeaderRaw:          {"http.header.raw", Both, Headers, false, "http", false, 2, false},
	HeaderNames:        {"http.header_names", Both, Headers, false, "http", false, 2, false},
	RequestHeader:      {"http.request_header", ToServer, Headers, true, "http", false, 2, false},
	ResponseHeader:     {"http.response_header", ToClient, Headers, true, "http", false, 2, false},
	Start:              {"http.start", Both, Headers, false, "http", false, 2, false},
	RequestLine:        {"http.request_line", ToServer, Line, false, "http", false, 2, false},
	ResponseLine:       {"http.response_line", ToClient, Line, false, "http", false, 2, false},
	Protocol:           {"http.protocol", Both, Line, false, "http", false, 2, false},
	StatCode:           {"http.stat_code", ToClient, Line, false, "http", false, 4, false},
	StatMsg:            {"http.stat_msg", ToClient, Line, false, "http", false, 3, false},
	RequestBody:        {"http.request_body", ToServer, Body, false, "http", false, 2, false},
	ResponseBody:       {"http.response_body", ToClient, Body, false, "http", false, 2, false},
	FileData:           {"file.data", Both, Body, true, "", false, 2, false},
	FileName:           {"file.name", Both, Body, true, "", false, 2, false},
	FileMagic:          {"file.magic", Both, Body, true, "", false, 2, false},
	HTTP2HeaderName:    {"http2.header_name", Both, Headers, true, "http2", false, 2, false},
	WebSocketPayload:   {"websocket.payload", Both, Body, false, "websocket", false, 2, false},
	SNI:                {"tls.sni", ToServer, Line, false, "tls", false, 2, false},
	CertSubject:        {"tls.cert_subject", Both, Headers, false, "tls", false, 2, false},
	CertIssuer:         {"tls.cert_issuer", Both, Headers, false, "tls", false, 2, false},
	CertSerial:         {"tls.cert_serial", Both, Headers, false, "tls", false, 2, false},
	CertFingerprint:    {"tls.cert_fingerprint", Both, Headers, false, "tls", false, 2, false},
	CertAltName:        {"tls.subjectaltname", ToClient, Headers, true, "tls", false, 2, false},
	Certs:              {"tls.certs", Both, Headers, true, "tls", false, 2, false},
	ALPN:               {"tls.alpn", Both, Line, true, "tls", false, 2, false},
	Random:             {"tls.random", Both, Line, false, "tls", false, 2, false},
	RandomTime:         {"tls.random_time", Both, Line, false, "tls", false, 2, false},
	RandomBytes:        {"tls.random_bytes", Both, Line, false, "tls", false, 2, false},
	JA3Hash:            {"ja3.hash", ToServer, Line, false, "tls", true, 2, false},
	JA3String:          {"ja3.string", ToServer, Line, false, "tls", false, 2, false},
	JA3SHash:           {"ja3s.hash", ToClient, Line, false, "tls", true, 2, false},
	JA3SString:         {"ja3s.string", ToClient, Line, false, "tls", false, 2, false},
	JA4Hash:            {"ja4.hash", ToServer, Line, false, "tls", true, 2, false},
	DNSQuery:           {"dns.query", ToServer, Line, true, "dns", false, 2, false},
	DNSQueriesName:     {"dns.queries.rrname", Both, Line, true, "dns", false, 2, false},
	DNSAnswersName:     {"dns.answers.rrname", Both, Line, true, "dns", false, 2, false},
	DNSAuthoritiesName: {"dns.authorities.rrname", Both, Line, true, "dns", false, 2, false},
	DNSAdditionalsName: {"dns.additionals.rrname", Both, Line, true, "dns", false, 2, false},
	DNSResponseName:    {"dns.response.rrname", ToClient, Line, true, "dns", false, 2, false},
	IPSrc:              {"ip.src", Both, Line, false, "", false, 4, false},
	IPDst:              {"ip.dst", Both, Line, false, "", false, 4, false},
	IPv4Header:         {"ipv4.hdr", Both, Line, false, "", false, 4, true},
	IPv6Header:         {"ipv6.hdr", Both, Line, false, "", false, 4, true},
	TCPHeader:          {"tcp.hdr", Both, Line, false, "", false, 4, true},
	UDPHeader:          {"udp.hdr", Both, Line, false, "", false, 4, true},
	ICMPv4Header:       {"icmpv4.hdr", Both, Line, false, "", false, 4, true},
	ICMPv6Header:       {"icmpv6.hdr", Both, Line, false, "", false, 4, true},
	Base64Data:         {"base64_data", Both, Line, false, "", false, 9, false},
	HTTP1RequestFrame:  {"http1.request", ToServer, Line, false, "", false, 3, true},
	HTTP1ResponseFrame: {"http1.response", ToClient, Line, false, "", false, 3, true},
	HTTP2Frame:         {"http2.pdu", Both, Line, false, "", false, 3, true},
	HTTP2HeadFrame:     {"http2.hdr", Both, Line, false, "", false, 3, true},
	HTTP2DataFrame:     {"http2.data", Both, Line, false, "", false, 3, true},
	TLSFrame:           {"tls.pdu", Both, Line, false, "", false, 3, true},
	TLSHeadFrame:       {"tls.hdr", Both, Line, false, "", false, 3, true},
	TLSDataFrame:       {"tls.data", Both, Line, false, "", false, 3, true},
	TLSAlertFrame:      {"tls.alert_pdu", Both, Line, false, "", false, 3, true},
	TLSHeartbeatFrame:  {"tls.hb_pdu", Both, Line, false, "", false, 3, true},
	SSL2Frame:          {"tls.ssl2.pdu", Both, Line, false, "", false, 3, true},
	DNSFrame:           {"dns.pdu", Both, Line, false, "", false, 3, true},
	SMTPCommandFrame:   {"smtp.command_line", ToServer, Line, false, "", false, 3, true},
	SMTPReplyFrame:     {"smtp.response_line", ToClient, Line, false, "", false, 3, true},
	SMTPDataFrame:      {"smtp.data", ToServer, Line, false, "", false, 3, true},
	Helo:               {"smtp.helo", ToServer, Line, false, "smtp", false, 2, false},
	MailFrom:           {"smtp.mail_from", ToServer, Line, false, "smtp", false, 2, false},
	RcptTo:             {"smtp.rcpt_to", ToServer, Line, true, "smtp", false, 2, false},
	EmailFrom:          {"email.from", ToServer, Headers, false, "smtp", false, 2, false},
	EmailSubject:       {"email.subject", ToServer, Headers, false, "smtp", false, 2, false},
	EmailTo:            {"email.to", ToServer, Headers, false, "smtp", false, 2, false},
	EmailCc:            {"email.cc", ToServer, Headers, false, "smtp", false, 2, false},
	EmailDate:          {"email.date", ToServer, Headers, false, "smtp", false, 2, false},
	EmailMessageID:     {"email.message_id", ToServer, Headers, false, "smtp", false, 2, false},
	EmailMailer:        {"email.x_mailer", ToServer, Headers, false, "smtp", false, 2, false},
	EmailURL:           {"email.url", ToServer, Body, true, "smtp", false, 2, false},
	EmailReceived:      {"email.received", ToServer, Headers, true, "smtp", false, 2, false},
	EmailBodyMD5:       {"email.body_md5", ToServer, Complete, false, "smtp", false, 2, false},
	FTPCommand:         {"ftp.command", ToServer, Line, false, "ftp", false, 2, false},
	FTPCommandData:     {"ftp.command_data", ToServer, Line, false, "ftp", false, 2, false},
	FTPReply:           {"ftp.reply", ToClient, Line, true, "ftp", false, 2, false},
	FTPCode:            {"ftp.completion_code", ToClient, Line, true, "ftp", false, 2, false},
	QUICVersion:        {"quic.version", Both, Line, false, "quic", false, 2, false},
	QUICSNI:            {"quic.sni", Both, Line, false, "quic", false, 2, false},
	QUICAgent:          {"quic.ua", Both, Line, false, "quic", false, 2, false},
	SSHProtocol:        {"ssh.proto", Both, Line, false, "ssh", false, 2, false},
	SSHSoftware:        {"ssh.software", Both, Line, false, "ssh", false, 2, false},
	SSHHassh:           {"ssh.hassh", ToServer, Headers, false, "ssh", false, 2, false},
	SSHHasshText:       {"ssh.hassh.string", ToServer, Headers, false, "ssh", false, 2, false},
	SSHServerHassh:     {"ssh.hassh.server", ToClient, Headers, false, "ssh", false, 2, false},
	SSHServerHasshText: {"ssh.hassh.server.string", ToClient, Headers, false, "ssh", false, 2, false},
	OtherBuffer:        {"other", Both, Complete, false, "other", false, 9, false},
}

// Info returns the properties of b.
func (b Buffer) Info() *BufferInfo { return &buffers[b%Buffers] }

func (b Buffer) String() string { return b.Info().Name }

// Framed reports whether a buffer is a frame: a record of a protocol as it was sent.
func (b Buffer) Framed() bool { return b >= HTTP1RequestFrame && b <= SMTPDataFrame }

// frames are the frames by their names in rules.
var frames = func() map[string]Buffer {
	m := map[string]Buffer{}
	for b := range Buffers {
		if b.Framed() {
			m[b.String()] = b
		}
	}
	return m
}()

// captured are the protocols whose messages are read in captures only.
var captured = map[string]bool{"smtp": true, "ftp": true, "quic": true, "ssh": true}

// InHead reports whether a buffer is part of the head of a message of HTTP.
func (b Buffer) InHead() bool {
	info := b.Info()
	return info.Protocol == "http" && info.Progress <= Headers
}
