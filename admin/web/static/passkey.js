// Passkeys: the sign-in page has a button "passkey", the account page one to
// add a passkey. Both show where the browser has passkeys.
(() => {
  "use strict";
  const bytes = s => Uint8Array.from(atob(s.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
  const text = b => btoa(String.fromCharCode(...new Uint8Array(b))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const post = async (path, value) => {
    const r = await fetch(path, { method: "POST", headers: { "Content-Type": value ? "application/json" : "application/x-www-form-urlencoded", "Accept": "application/json" }, body: value ? JSON.stringify(value) : "" });
    if (!r.ok) throw new Error(await r.text());
    return r.json();
  };
  const signIn = async to => {
    const c = await post("/login/passkey/challenge");
    const k = await navigator.credentials.get({ publicKey: { challenge: bytes(c.challenge), rpId: c.rpId, userVerification: "required" } });
    const said = await post("/login/passkey?to=" + encodeURIComponent(to), { id: k.id, clientDataJSON: text(k.response.clientDataJSON), authenticatorData: text(k.response.authenticatorData), signature: text(k.response.signature), userHandle: k.response.userHandle ? text(k.response.userHandle) : "" });
    location.assign(said.to);
  };
  const add = async name => {
    const c = await post("/account/passkeys/challenge");
    const k = await navigator.credentials.create({ publicKey: {
      challenge: bytes(c.challenge), rp: { id: c.rpId, name: "Shuultuur" }, user: { id: bytes(c.handle), name: c.name, displayName: c.name },
      pubKeyCredParams: c.algorithms.map(alg => ({ type: "public-key", alg })), attestation: "none",
      excludeCredentials: c.have.map(id => ({ type: "public-key", id: bytes(id) })),
      authenticatorSelection: { residentKey: "required", userVerification: "required" } } });
    await post("/account/passkeys", { id: k.id, name, publicKey: text(k.response.getPublicKey()), clientDataJSON: text(k.response.clientDataJSON), authenticatorData: text(k.response.getAuthenticatorData()) });
    location.reload();
  };
  if (!window.PublicKeyCredential) return;
  const button = (id, act) => {
    const b = document.getElementById(id), said = document.getElementById("passkey-said");
    if (!b) return;
    b.hidden = false;
    b.addEventListener("click", () => act(b).catch(e => { said.textContent = e.message; }));
  };
  button("passkey", b => signIn(b.dataset.to));
  button("passkey-add", () => { const n = document.getElementById("passkey-name"); return add(n.value || n.placeholder); });
})();
