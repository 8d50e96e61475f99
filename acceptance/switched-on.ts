/** Configuration under which the routes are there that a new installation does not have. */
import { generateKeyPairSync } from 'node:crypto';
import type { Api } from '../test/support/api.ts';

/** Nothing is asked of these providers before somebody signs in. */
const app = { enabled: true, clientId: 'app', clientSecret: 'only for tests' };
const appleKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  format: 'pem',
  type: 'pkcs8',
});

const authentication = {
  accessTokens: { issuer: 'https://api.example.com' },
  openidProvider: { enabled: true },
  local: { username_auth_enabled: true, verification: { send_email: true, method: 'code' } },
  magic_link: { enabled: true, link_uri: 'https://app.example.com/sign-in' },
  email_code: { enabled: true },
  redirectUris: { tokenDelivery: 'exchange' },
  // No service is set up in the router, so that none is asked for: what changes is what the documents say.
  captcha: { enabled: true, routes: { login: true, register: true, oAuth2: true } },
  teams: { enabled: true, allowAddWithoutInvite: true, invites: { enabled: true } },
  twoFa: { enabled: true, methods: { sms: true } },
  passkeys: { enabled: true },
  phoneAuthentication: { enabled: true },
  anonymousUsers: { enabled: true },
  biometricAuthentication: { enabled: true },
  metamask: { enabled: true },
  google: app,
  facebook: app,
  apple: { enabled: true, clientId: 'app', teamId: 'team', keyId: 'key', privateKey: appleKey },
};

/** Switches on whatever can be switched on without asking anybody outside. */
export async function switchOn(admin: Api): Promise<void> {
  const answer = await admin.patch('/config/authentication', { config: authentication });
  if (answer.status !== 200) throw new Error(`The configuration was refused: ${answer.text}`);
}
