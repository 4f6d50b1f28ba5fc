package rule

import (
	"slices"
	"strings"
)

// A Class says where a keyword works.
type Class uint8

// The classes of keywords.
const (
	Unknown   Class = iota
	AboutRule       // a property of the rule itself
	Message         // inspects messages: works in the gateway and in captures
	Packets         // needs packets: works in captures only
	Foreign         // needs an unsupported protocol or service: accepted but inactive
)

func (c Class) String() string {
	return [...]string{"unknown", "rule", "message", "packet", "inactive"}[c%5]
}

// A Keyword is a keyword of the rule language.
type Keyword struct {
	Name  string
	Class Class
}

// A read parses the value of a keyword.
type read func(p *parser, o Option) error

type keyword struct {
	class Class
	read  read
}

// foreign are the keywords of protocols and services that are not supported.
const foreign = `
asn1 app-layer-state dce_iface dce_opnum dce_stub_data dcerpc.iface dcerpc.opnum dcerpc.stub_data dhcp.leasetime
dhcp.rebinding_time dhcp.renewal_time dnp3.data dnp3.func dnp3.ind dnp3.obj dnp3_data dnp3_func dnp3_ind dnp3_obj
email.bcc email.command enip.capabilities enip.cip_attribute enip.cip_class enip.cip_extendedstatus
enip.cip_instance enip.cip_status enip.command enip.device_type enip.identity_status enip.product_code
enip.product_name enip.protocol_version enip.revision enip.serial enip.service_name enip.state enip.status
enip.vendor_id enip_command cip_service ftpbounce geoip ike.chosen_sa_attribute ike.exchtype ike.init_spi
ike.key_exchange_payload ike.key_exchange_payload_length ike.nonce_payload ike.nonce_payload_length ike.resp_spi
ike.vendor iprep krb5.cname krb5.sname krb5.ticket_encryption krb5.weak_encryption krb5_cname krb5_err_code
krb5_msg_type krb5_sname krb5.err_code krb5.msg_type ldap.request.operation ldap.responses.operation
ldap.responses.count ldap.request.dn ldap.responses.dn ldap.responses.result_code ldap.responses.message
ldap.request.attribute_type ldap.responses.attribute_type mdns.queries.rrname mdns.answers.rrname
mdns.authorities.rrname mdns.additionals.rrname mdns.response.rrname modbus mqtt.connack.return_code
mqtt.connack.session_present mqtt.connect.clientid mqtt.connect.flags mqtt.connect.password
mqtt.connect.protocol_string mqtt.connect.username mqtt.connect.willmessage mqtt.connect.willtopic mqtt.flags
mqtt.protocol_version mqtt.publish.message mqtt.publish.topic mqtt.qos mqtt.reason_code mqtt.subscribe.topic
mqtt.type mqtt.unsubscribe.topic nfs.version nfs_procedure nfs_version pgsql.query pop3.command pop3.response
quic.cyu.hash quic.cyu.string replace rfb.name rfb.secresult rfb.sectype rpc rpc.procedure sdp.attribute
sdp.bandwidth sdp.connection_data sdp.email sdp.encryption_key sdp.media.attribute sdp.media.bandwidth
sdp.media.connection_data sdp.media.encryption_key sdp.media.media sdp.media.media_info sdp.origin sdp.phone_number
sdp.repeat_time sdp.session_info sdp.session_name sdp.time sdp.timezone sdp.uri sip.content_length sip.content_type
sip.from sip.method sip.protocol sip.request_line sip.response_line sip.stat_code sip.stat_msg sip.to sip.ua
sip.uri sip.via smb.named_pipe smb.ntlmssp_domain smb.ntlmssp_user smb.share smb.version smb_named_pipe smb_share
snmp.community snmp.pdu_type snmp.trap_type snmp.usm snmp.version snmp.security_model template template2 tftp.file
tftp.mode tftp.opcode tos.set arp.hdr igmp.hdr igmp.type igmp.csum gre.flags netflow untrusted dns_over_http2
websocket.protocol nfs.procedure nfs.file_handle pgsql.request pgsql.response rdp.cookie rdp.client_name
telnet.option bittorrent_dht.query bittorrent_dht.node ldap.version krb5.realm snmp.oid dhcp.type dhcp.hostname
llmnr.queries.rrname llmnr.answers.rrname llmnr.authorities.rrname llmnr.additionals.rrname llmnr.response.rrname
imap.request imap.response arp.opcode mysql.command mysql.rows mime.content_type ntp.version ndpi-protocol
ndpi-risk ether.hdr sctp.hdr sctp.chunk_type sctp.vtag sip.user_agent detect-event`

// packets are the keywords that need packets and do not compare an integer.
const packets = `
ack id seq window ipopts flags tcp.flags fragbits fragoffset sameip ip_proto l3_proto
ipv4-csum tcpv4-csum tcpv6-csum udpv4-csum udpv6-csum icmpv4-csum icmpv6-csum decode-event stream-event
engine-event stream_size rawbytes.packet`

// idle are the keywords of what Suricata does after a match and nothing here does.
var idle = wordSet("tag filestore tls.store tls_store config mark nfq_set_mark")

// Idle reports whether a rule matches without regard to a keyword, which has no effect.
func Idle(keyword string) bool { return idle[keyword] }

// integers are the keywords that compare one number, or one of several.
var integers = map[string]Class{
	"urilen": Message, "filesize": Message, "http2.window": Message, "http2.errorcode": Message,
	"http2.priority": Message, "http2.size_update": Foreign, "http2.frametype": Message,
	"dns.opcode": Message, "dns.rcode": Message, "dns.rrtype": Message, "tls.cert_chain_len": Message,
	"websocket.opcode": Foreign, "websocket.flags": Foreign, "websocket.mask": Foreign,
	"mdns.opcode": Foreign, "mdns.rcode": Foreign, "mdns.rrtype": Foreign,
	"http.content_length": Message, "flow.age": Message, "flow.elephant": Foreign, "flow.rate": Foreign,
	"flow.pkts_toclient": Packets, "flow.pkts_toserver": Packets, "flow.bytes_toclient": Packets,
	"flow.bytes_toserver": Packets, "flow.pkts": Packets, "flow.bytes": Packets,
	"dsize": Packets, "ttl": Packets, "tos": Packets, "itype": Packets, "icode": Packets, "icmp_id": Packets,
	"icmp_seq": Packets, "tcp.mss": Packets, "icmpv6.mtu": Packets, "tcp.wscale": Packets, "vxlan_vni": Packets,
	"seq": Packets, "ack": Packets, "window": Packets, "id": Packets, "tcp.window": Packets, "tcp.ack": Packets, "tcp.seq": Packets, "ftp.dynamic_port": Packets,
	"flow.elephant_toclient": Foreign, "flow.elephant_toserver": Foreign, "vlan.id": Packets, "vlan.layers": Packets,
}

// sticky are the keywords that open a buffer.
var sticky = map[string]Buffer{
	"http.uri": URI, "http.uri.raw": URIRaw, "http.method": Method, "http.host": Host, "http.host.raw": HostRaw,
	"http.user_agent": UserAgent, "http.referer": Referer, "http_referer": Referer, "http.cookie": Cookie,
	"http.accept": Accept, "http_accept": Accept, "http.accept_lang": AcceptLang, "http_accept_lang": AcceptLang,
	"http.accept_enc": AcceptEnc, "http_accept_enc": AcceptEnc, "http.connection": Connection, "http_connection": Connection,
	"http.content_type": ContentType, "http_content_type": ContentType, "http.content_len": ContentLen,
	"http_content_len": ContentLen, "http.server": Server, "http.location": Location, "http.header": HeaderAll,
	"http.header.raw": HeaderRaw, "http.header_names": HeaderNames, "http_header_names": HeaderNames,
	"http.request_header": RequestHeader, "http.response_header": ResponseHeader, "http.start": Start, "http_start": Start,
	"http.request_line": RequestLine, "http_request_line": RequestLine, "http.response_line": ResponseLine,
	"http_response_line": ResponseLine, "http.protocol": Protocol, "http_protocol": Protocol, "http.stat_code": StatCode,
	"http.stat_msg": StatMsg, "http.request_body": RequestBody, "http.response_body": ResponseBody,
	"file.data": FileData, "file_data": FileData, "file.name": FileName, "file.magic": FileMagic,
	"http2.header_name": HTTP2HeaderName, "http2.header": RequestHeader, "websocket.payload": WebSocketPayload, "tls.sni": SNI, "tls_sni": SNI,
	"tls.cert_subject": CertSubject, "tls_cert_subject": CertSubject, "tls.cert_issuer": CertIssuer,
	"tls_cert_issuer": CertIssuer, "tls.cert_serial": CertSerial, "tls_cert_serial": CertSerial,
	"tls.cert_fingerprint": CertFingerprint, "tls_cert_fingerprint": CertFingerprint, "tls.subjectaltname": CertAltName,
	"tls.certs": Certs, "tls_certs": Certs, "tls.alpn": ALPN, "tls.random": Random, "tls.random_time": RandomTime,
	"tls.random_bytes": RandomBytes, "ja3.hash": JA3Hash, "ja3_hash": JA3Hash, "ja3.string": JA3String, "ja3_string": JA3String,
	"ja3s.hash": JA3SHash, "ja3s.string": JA3SString, "ja4.hash": JA4Hash, "ja4_hash": JA4Hash,
	"dns.query": DNSQuery, "dns_query": DNSQuery, "dns.query.name": DNSQueriesName, "dns.answer.name": DNSAnswersName,
	"dns.queries.rrname": DNSQueriesName, "dns.answers.rrname": DNSAnswersName, "dns.authorities.rrname": DNSAuthoritiesName,
	"dns.additionals.rrname": DNSAdditionalsName, "dns.response.rrname": DNSResponseName,
	"smtp.helo": Helo, "smtp.mail_from": MailFrom, "smtp.rcpt_to": RcptTo, "email.from": EmailFrom, "email.subject": EmailSubject, "email.to": EmailTo,
	"email.cc": EmailCc, "email.date": EmailDate, "email.message_id": EmailMessageID, "email.x_mailer": EmailMailer, "email.url": EmailURL, "email.received": EmailReceived, "email.body_md5": EmailBodyMD5,
	"ftp.command": FTPCommand, "ftp.command_data": FTPCommandData, "ftp.reply": FTPReply, "ftp.completion_code": FTPCode, "quic.version": QUICVersion, "quic.sni": QUICSNI, "quic.ua": QUICAgent,
	"ssh.proto": SSHProtocol, "ssh.software": SSHSoftware, "ssh.hassh": SSHHassh, "ssh.hassh.string": SSHHasshText, "ssh.hassh.server": SSHServerHassh, "ssh.hassh.server.string": SSHServerHasshText, "ssh_proto": SSHProtocol, "ssh_software": SSHSoftware,
	"ip.src": IPSrc, "ip.dst": IPDst, "ipv4.hdr": IPv4Header, "ipv6.hdr": IPv6Header, "tcp.hdr": TCPHeader,
	"udp.hdr": UDPHeader, "icmpv4.hdr": ICMPv4Header, "icmpv6.hdr": ICMPv6Header, "pkt_data": Payload, "base64_data": Base64Data,
}

// legacy are the modifiers that move the last content into a buffer.
var legacy = map[string]Buffer{
	"http_uri": URI, "http_raw_uri": URIRaw, "http_method": Method, "http_host": Host, "http_raw_host": HostRaw,
	"http_user_agent": UserAgent, "http_cookie": Cookie, "http_header": HeaderAll, "http_raw_header": HeaderRaw,
	"http_client_body": RequestBody, "http_server_body": ResponseBody, "http_stat_code": StatCode, "http_stat_msg": StatMsg,
}

// transforms are the keywords that transform the open buffer.
const transforms = `dotprefix to_lowercase to_uppercase url_decode strip_whitespace compress_whitespace xor
pcrexform to_md5 to_sha1 to_sha256 from_base64 gunzip zlib_deflate domain tld subslice luaxform header_lowercase
strip_pseudo_headers casechange.lower base64_decode.transform`

// table returns every keyword.
func table() map[string]keyword {
	t := map[string]keyword{}
	for _, name := range strings.Fields(foreign) {
		t[name] = keyword{Foreign, readForeign}
	}
	for _, name := range strings.Fields(packets) {
		t[name] = keyword{Packets, readWord}
	}
	for name, class := range integers {
		t[name] = keyword{class, readInteger}
	}
	for name := range idle {
		t[name] = keyword{AboutRule, readWord}
	}
	for name, b := range sticky {
		class := Message
		switch {
		case b == WebSocketPayload:
			class = Foreign
		case b.Info().Packet || captured[b.Info().Protocol]:
			class = Packets
		}
		t[name] = keyword{class, func(p *parser, o Option) error { return p.open(b, o) }}
	}
	for name, b := range legacy {
		t[name] = keyword{Message, func(p *parser, o Option) error { return p.move(b, o) }}
	}
	for _, name := range strings.Fields(transforms) {
		t[name] = keyword{Message, readTransform}
	}
	for name, r := range readers {
		t[name] = r
	}
	return t
}

// readers are the keywords with their own syntax.
var readers = map[string]keyword{
	"msg": {AboutRule, readAbout}, "sid": {AboutRule, readAbout}, "gid": {AboutRule, readAbout}, "rev": {AboutRule, readAbout},
	"classtype": {AboutRule, readAbout}, "priority": {AboutRule, readAbout}, "reference": {AboutRule, readAbout},
	"metadata": {AboutRule, readAbout}, "target": {AboutRule, readAbout}, "requires": {AboutRule, readRequires},
	"tag": {AboutRule, readTag}, "filestore": {AboutRule, readFileStore},
	"noalert": {AboutRule, readNoAlert}, "bypass": {AboutRule, readBypass}, "alert": {AboutRule, readAlert},

	"content": {Message, readContent}, "uricontent": {Message, readURIContent},
	"nocase": {Message, readFlag}, "startswith": {Message, readFlag}, "endswith": {Message, readFlag}, "rawbytes": {Message, readFlag},
	"fast_pattern": {Message, readFast}, "prefilter": {Message, readPrefilter},
	"offset": {Message, readPlace}, "depth": {Message, readPlace}, "distance": {Message, readPlace}, "within": {Message, readPlace},
	"pcre": {Message, readPCRE}, "isdataat": {Message, readDataAt}, "bsize": {Message, readSize}, "absent": {Message, readAbsent},
	"byte_test": {Message, readByteTest}, "byte_jump": {Message, readByteJump}, "byte_extract": {Message, readByteExtract},
	"byte_math": {Message, readByteMath}, "base64_decode": {Message, readBase64}, "entropy": {Message, readEntropy},
	"dataset": {Message, readDataset}, "datarep": {Message, readDataset}, "lua": {Message, readLua}, "luajit": {Message, readLua},

	"flow": {Message, readFlow}, "flowbits": {Message, readBit}, "hostbits": {Message, readBit}, "xbits": {Message, readBit},
	"flowint": {Message, readInt}, "flowvar": {Message, readVar}, "pktvar": {Message, readVar},
	"threshold": {Message, readThreshold}, "detection_filter": {Message, readThreshold},
	"app-layer-protocol": {Message, readWord}, "app-layer-event": {Message, readEvent},
	"stream-event": {Packets, readEvent}, "decode-event": {Packets, readEvent}, "engine-event": {Packets, readEvent},
	"filename": {Message, readWord}, "fileext": {Message, readWord}, "filemagic": {Message, readWord},
	"filemd5": {Message, readDigests}, "filesha1": {Message, readDigests}, "filesha256": {Message, readDigests},
	"http2.settings": {Message, readWord}, "ssl_version": {Message, readWord}, "tls.version": {Message, readWord},
	"ssl_state": {Message, readWord}, "tls.subject": {Message, readWord}, "tls.issuerdn": {Message, readWord},
	"tls.fingerprint":    {Message, readWord},
	"tls.cert_notbefore": {Message, readWord}, "tls.cert_notafter": {Message, readWord},
	"tls_cert_notbefore": {Message, readWord}, "tls_cert_notafter": {Message, readWord}, "tls_cert_expired": {Message, readWord},
	"tls_cert_valid": {Message, readWord}, "tls.cert_expired": {Message, readWord}, "tls.cert_valid": {Message, readWord},
	"frame": {Packets, readFrame}, "bytetest": {Message, readByteTest}, "bytejump": {Message, readByteJump},
	"ftp.mode": {Packets, readWord}, "ftp.reply_received": {Packets, readWord}, "ftpdata_command": {Packets, readWord},
	"ssh.protoversion": {Packets, readWord}, "ssh.softwareversion": {Packets, readWord},
}

// Keywords returns every keyword of the language, by name.
func Keywords() []Keyword {
	var ks []Keyword
	for name, k := range table() {
		ks = append(ks, Keyword{name, k.class})
	}
	slices.SortStableFunc(ks, func(a, b Keyword) int { return strings.Compare(a.Name, b.Name) })
	return ks
}
