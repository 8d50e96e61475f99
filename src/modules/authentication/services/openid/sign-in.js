/*
 * The program of the sign-in page. It calls the same operations as every app: whatever proves who somebody is ends in
 * an access token, which is handed to the sign-in of the app and kept nowhere.
 */

const { base, interaction } = document.getElementById('script').dataset;
const here = `${base}/openid/interaction/${encodeURIComponent(interaction)}`;
const problem = document.getElementById('problem');
const element = (id) => document.getElementById(id);

/** Answers the body; throws the message of the platform. */
async function call(path, body, token) {
  const response = await fetch(path.startsWith('http') ? path : base + path, {
    method: body === undefined ? 'GET' : 'POST',
    credentials: 'same-origin',
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.message ?? `The server answered ${response.status}`);
  return answer;
}

/** Runs what a button or form does, and shows what went wrong. */
async function attempt(work) {
  problem.textContent = '';
  try {
    await work();
  } catch (error) {
    problem.textContent = error instanceof Error ? error.message : String(error);
  }
}

const goOn = ({ redirectTo }) => location.replace(redirectTo);
const finish = async (token) => goOn(await call(`${here}/sign-in`, {}, token));

/** The token of a sign-in that still needs its second step. */
let partial;

async function signedIn(answer) {
  if (answer.twoFaEnrolment)
    throw new Error('Your account needs a second factor first: set one up in your account');
  if (!answer.twoFaRequired) return finish(answer.accessToken);
  partial = answer.accessToken;
  const { method, message } = await call('/authentication/twoFa/authorize', {}, partial);
  for (const form of document.querySelectorAll('form')) form.hidden = true;
  if (method === 'passkey') return withPasskey('twoFa/passkey', partial);
  element('factorText').textContent = message;
  element('factor').hidden = false;
  element('factor').elements.code.focus();
}

async function withPasskey(step, token) {
  const [begin, end] =
    step === 'twoFa/passkey'
      ? ['/authentication/twoFa/passkey/options', '/authentication/twoFa/passkey/verify']
      : [
          '/authentication/passkeys/authenticate/options',
          '/authentication/passkeys/authenticate/verify',
        ];
  const options = await call(begin, {}, token);
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  const credential = await navigator.credentials.get({ publicKey });
  await signedIn(await call(end, { credential: credential.toJSON() }, token));
}

/* Other providers: the browser leaves, and comes back with a code that only this page can exchange. */

const verifierKey = `openid:${interaction}`;
const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');

async function withProvider(name) {
  const codeVerifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  sessionStorage.setItem(verifierKey, codeVerifier);
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(codeVerifier));
  const query = new URLSearchParams({ redirectUri: here, codeChallenge: base64url(digest) });
  const { result } = await call(`/authentication/init/${encodeURIComponent(name)}?${query}`);
  location.assign(result);
}

async function comeBack() {
  const query = new URLSearchParams(location.search);
  const code = query.get('code');
  if (query.has('error')) throw new Error(query.get('error_description') ?? query.get('error'));
  if (code === null) return;
  history.replaceState(null, '', location.pathname);
  const codeVerifier = sessionStorage.getItem(verifierKey) ?? '';
  sessionStorage.removeItem(verifierKey);
  await signedIn(await call('/authentication/exchange', { code, codeVerifier }));
}

function onSubmit(id, work) {
  element(id)?.addEventListener('submit', (event) => {
    event.preventDefault();
    void attempt(() => work(event.target.elements));
  });
}

function onClick(id, work) {
  element(id)?.addEventListener('click', () => void attempt(work));
}

onSubmit('password', async ({ name, password }) => {
  const [path, who] = name.value.includes('@')
    ? ['/authentication/local', { email: name.value }]
    : ['/authentication/username', { username: name.value }];
  await signedIn(await call(path, { ...who, password: password.value }));
});
onSubmit('factor', async ({ code }) =>
  signedIn(
    await call(
      /^\d{4}[ -]?\d{4}$/.test(code.value.trim())
        ? '/authentication/twoFa/recover'
        : '/authentication/twoFa/verify',
      { code: code.value.trim() },
      partial,
    ),
  ),
);

let mailToken;
onSubmit('mail', async ({ email }) => {
  ({ token: mailToken } = await call('/authentication/email-code', { email: email.value }));
  element('mailCode').hidden = false;
  element('mailCode').elements.code.focus();
});
onSubmit('mailCode', async ({ code }) =>
  signedIn(
    await call('/authentication/email-code/verify', { token: mailToken, code: code.value.trim() }),
  ),
);

onClick('passkey', () => withPasskey('authenticate'));
onClick('allow', async () => goOn(await call(`${here}/consent`, { allow: true })));
onClick('cancel', async () => goOn(await call(`${here}/consent`, { allow: false })));
for (const button of document.querySelectorAll('[data-provider]'))
  button.addEventListener('click', () => void attempt(() => withProvider(button.dataset.provider)));
void attempt(comeBack);
