// An OpenID provider for tests: node oidc.mjs LIBRARY PORT KEY CALLBACK.
// Everybody may sign in, with any password, and is a teacher.
import { generateKeyPairSync } from 'node:crypto';
const [library, port, kid, callback] = process.argv.slice(2);
const { default: Provider } = await import(library);
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...key, kid, alg: 'ES256', use: 'sig' }] },
  clients: [{
    client_id: 'gate', client_secret: 'a secret of the test', redirect_uris: [callback],
    grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
    response_types: ['code'], id_token_signed_response_alg: 'ES256',
  }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
  cookies: { keys: ['a key of the test'] },
  features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
  pkce: { required: () => true },
  findAccount: (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id, preferred_username: id, groups: id === 'root' ? ['network-admins'] : ['teachers', 'choir'] }) }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
