# Signs in to a proxy by the GSSAPI of MIT Kerberos, and has the proxy prove itself:
# mutual.py PORT URL [kerberos]; the last means a token without SPNEGO around it.
import base64, ctypes, socket, sys
host, port, url = "localhost", int(sys.argv[1]), sys.argv[2]
g = ctypes.CDLL("libgssapi_krb5.so.2")
class Buf(ctypes.Structure): _fields_ = [("length", ctypes.c_size_t), ("value", ctypes.c_void_p)]
class OID(ctypes.Structure): _fields_ = [("length", ctypes.c_uint32), ("elements", ctypes.c_void_p)]
def buf(b):
    s = ctypes.create_string_buffer(b, len(b)); x = Buf(len(b), ctypes.cast(s, ctypes.c_void_p)); x.keep = s; return x
def oid(b):
    s = ctypes.create_string_buffer(b, len(b)); x = OID(len(b), ctypes.cast(s, ctypes.c_void_p)); x.keep = s; return x
minor, name, ctx = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_void_p()
service = oid(bytes.fromhex("2a864886f71201020104"))
mech = oid(bytes.fromhex("2b0601050502" if len(sys.argv) < 4 else "2a864886f712010202"))
n = buf(b"HTTP@" + host.encode())
assert g.gss_import_name(ctypes.byref(minor), ctypes.byref(n), ctypes.byref(service), ctypes.byref(name)) == 0
def step(token):
    out, flags = Buf(), ctypes.c_uint32()
    i = buf(token) if token else None
    major = g.gss_init_sec_context(ctypes.byref(minor), None, ctypes.byref(ctx), name, ctypes.byref(mech), 2, 0, None,
        ctypes.byref(i) if i else None, None, ctypes.byref(out), ctypes.byref(flags), None)
    return major & 0xffffffff, ctypes.string_at(out.value, out.length) if out.length else b""
major, token = step(None)
assert major == 1, (major, minor.value)  # GSS_S_CONTINUE_NEEDED: an answer is waited for
s = socket.create_connection((host, port))
s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Negotiate %s\r\nConnection: close\r\n\r\n" % (url.encode(), base64.b64encode(token)))
answer = b""
while b := s.recv(65536): answer += b
head = answer.split(b"\r\n\r\n")[0]
line = [l for l in head.split(b"\r\n") if l.lower().startswith(b"proxy-authenticate: negotiate ")]
major, token = step(base64.b64decode(line[0].split()[2]))
print(head.split(b"\r\n")[0].decode(), "complete" if major == 0 else f"error {major:#x} {minor.value}")
