package rule

import "strings"

// raised are the protocols whose anomalies are noticed.
var raised = wordSet("http http2 dns tls smtp ftp ssh quic")

// unraised are the anomalies of these protocols that have a name in Suricata and are not noticed.
var unraised = wordSet(`http.unknown_error http.invalid_server_port_in_request http.multipart_generic_error
http.multipart_no_filedata http.multipart_invalid_header http.request_server_port_tcp_port_mismatch http.request_line_invalid
http.lzma_memlimit_reached http.too_many_warnings http.file_name_too_long http.failed_protocol_change
http2.long_frame_data http2.extra_header_data http2.stream_id_reuse http2.invalid_http1_settings
http2.failed_decompression http2.invalid_range http2.reassembly_limit_reached
tls.invalid_sslv2_header tls.invalid_tls_header tls.certificate_missing_element tls.certificate_unknown_element
tls.certificate_invalid_string tls.invalid_ssl_record tls.heartbeat_message tls.overflow_heartbeat_message
tls.invalid_heartbeat_message tls.dataleak_heartbeat_mismatch tls.multiple_sni_extensions tls.invalid_sni_type
tls.invalid_sni_length tls.handshake_invalid_length tls.too_many_records_in_packet
dns.not_request dns.not_response dns.not_a_request dns.not_a_response dns.unsolicited_response dns.infinite_loop dns.too_many_labels
dns.invalid_additionals dns.invalid_authorities dns.invalid_answers dns.flooded
smtp.invalid_pipelined_sequence smtp.bdat_chunk_len_exceeded smtp.mime_parse_failed smtp.mime_long_header_value
smtp.mime_long_enc_line smtp.mime_long_boundary smtp.mime_long_filename smtp.unparsable_content smtp.truncated_filename`)

func wordSet(text string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		m[word] = true
	}
	return m
}

// noticed reports whether anything raises an event.
func noticed(kind, name string) bool {
	switch kind {
	case "decode-event":
		return false
	case "app-layer-event":
		protocol, _, ok := strings.Cut(name, ".")
		return ok && raised[protocol] && !unraised[name]
	}
	return true
}
