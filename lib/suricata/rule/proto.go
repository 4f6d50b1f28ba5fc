package rule

// A Proto is a set of protocols.
type Proto uint16

// The protocols that rules distinguish.
const (
	TCP Proto = 1 << iota
	UDP
	ICMP
	OtherIP
	HTTP1
	HTTP2
	TLS
	DNS
	OtherApp
	WebSocket
	SMTP
	FTP
	FTPData
	QUIC
	SSH
	DOH       // DNS over HTTPS
	transport = TCP | UDP | ICMP | OtherIP
)

// Captured are the protocols of messages that are read in captures only.
const Captured = SMTP | FTP | FTPData | QUIC | SSH

// Protocols returns the protocols for the word after the action.
func Protocols(name string) (l4, app Proto) {
	switch name {
	case "tcp", "tcp-pkt", "tcp-stream", "tcp4", "tcp6":
		return TCP, 0
	case "udp":
		return UDP, 0
	case "icmp", "icmpv4", "icmpv6":
		return ICMP, 0
	case "ip", "ip4", "ip6", "ipv4", "ipv6", "pkthdr":
		return transport, 0
	case "http":
		return transport, HTTP1 | HTTP2
	case "http1":
		return transport, HTTP1
	case "http2":
		return transport, HTTP2
	case "tls", "ssl":
		return transport, TLS
	case "dns":
		return transport, DNS
	case "doh2":
		return transport, DOH
	case "smtp":
		return transport, SMTP
	case "ftp":
		return transport, FTP
	case "ftp-data", "ftpdata":
		return transport, FTPData
	case "quic":
		return transport, QUIC
	case "ssh":
		return transport, SSH
	case "websocket":
		return transport, WebSocket
	}
	return transport, OtherApp
}
