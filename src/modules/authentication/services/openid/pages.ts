/** What browsers show while somebody signs in to an app: pages of few words, without anything from elsewhere. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { KoaContextWithOIDC } from 'oidc-provider';
import { Reply } from '../../../../kernel/operations/operation.ts';

/** What the pages show. */
export interface InteractionView {
  readonly interaction: string;
  /** `login`: the user proves who they are; `consent`: the user says what the app may know. */
  readonly prompt: 'login' | 'consent';
  /** Why a user who is signed in already must prove who they are, such as `max_age`. */
  readonly reasons: readonly string[];
  readonly client: { readonly clientId: string; readonly name: string };
  readonly scopes: readonly string[];
  /** Which ways to sign in there are now. */
  readonly methods: SignInWays;
}

export interface SignInWays {
  readonly password: boolean;
  readonly username: boolean;
  readonly emailCode: boolean;
  readonly passkey: boolean;
  readonly providers: readonly string[];
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escaped = (text: string): string => text.replace(/[&<>"']/g, (one) => entities[one] ?? '');

const style =
  'body{font:1.05rem/1.5 system-ui,sans-serif;max-width:26rem;margin:12vh auto;padding:0 1rem;color-scheme:light dark}' +
  'h1{font-size:1.4rem}label{display:block;margin:.75rem 0}input,button{font:inherit;padding:.5rem .75rem;box-sizing:border-box}' +
  'input{display:block;width:100%}button{margin:.25rem .5rem .25rem 0}[role=alert]{min-height:1.5em}[hidden]{display:none}';

const page = (title: string, inside: string): string => `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escaped(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${escaped(title)}</h1>
${inside}
</main>
</body>
</html>
`;

/** For pages of the library too. Where their forms lead is decided by what the operator registered. */
export const openidPolicy =
  "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
const scriptedPolicy =
  "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const send = (context: KoaContextWithOIDC, html: string): void => {
  context.type = 'html';
  context.body = html;
};

/** Asks whether to sign out here, or of the app alone. `form` is that of the library. */
export function signOutPage(context: KoaContextWithOIDC, form: string): void {
  const app = context.oidc.client?.clientName;
  send(
    context,
    page(
      'Sign out',
      `<p>${app ? `You have left ${escaped(app)}. ` : ''}Sign out of your account in this browser too?</p>
${form}
<button autofocus type="submit" form="op.logoutForm" value="yes" name="logout">Sign out</button>
<button type="submit" form="op.logoutForm">Stay signed in</button>`,
    ),
  );
}

export const endedPage = (context: KoaContextWithOIDC): void =>
  send(context, page('Signed out', '<p>You can close this page.</p>'));

export const errorPage = (
  context: KoaContextWithOIDC,
  { error, error_description: description }: { error: string; error_description?: string },
): void =>
  send(
    context,
    page(
      'This sign-in cannot go on',
      `<p role="alert">${escaped(description ?? error)}</p>\n<p>Go back to the app and start again. (${escaped(error)})</p>`,
    ),
  );

/** What each scope lets an app know, as users read it. */
const scopeTexts: ReadonlyMap<string, string> = new Map([
  ['openid', 'who you are'],
  ['profile', 'your name and profile'],
  ['email', 'your e-mail address'],
  ['phone', 'your phone number'],
  ['offline_access', 'all this while you are away'],
]);

const hiddenUnless = (visible: boolean): string => (visible ? '' : ' hidden');

const signInForm = ({ methods }: InteractionView): string => `
<form id="password"${hiddenUnless(methods.password)}>
<label>E-mail address${methods.username ? ' or user name' : ''}<input name="name" autocomplete="username webauthn" required></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
</form>
<form id="mail"${hiddenUnless(methods.emailCode)}>
<label>E-mail address<input name="email" type="email" autocomplete="email" required></label>
<button>Send me a code</button>
</form>
<form id="mailCode" hidden>
<label>Code from the mail<input name="code" inputmode="numeric" autocomplete="one-time-code" required></label>
<button>Sign in</button>
</form>
<form id="factor" hidden>
<p id="factorText"></p>
<label>Code<input name="code" inputmode="numeric" autocomplete="one-time-code" required></label>
<button>Go on</button>
</form>
<p>
<button id="passkey" type="button"${hiddenUnless(methods.passkey)}>Use a passkey</button>
${methods.providers.map((name) => `<button type="button" data-provider="${escaped(name)}">Go on with ${escaped(name)}</button>`).join('\n')}
</p>`;

const consentForm = ({ scopes }: InteractionView): string => `
<p>It will know:</p>
<ul>${scopes.map((scope) => `<li>${escaped(scopeTexts.get(scope) ?? scope)}</li>`).join('')}</ul>
<button id="allow" type="button" autofocus>Allow</button>`;

/** The page on which somebody signs in to an app, or agrees to what it will know. */
export function interactionPage(view: InteractionView, base: string): Reply {
  const { client } = view;
  const login = view.prompt === 'login';
  const title = login ? `Sign in to ${client.name}` : `Let ${client.name} use your account?`;
  const inside = `<p role="alert" id="problem"></p>
${login ? signInForm(view) : consentForm(view)}
<p><button id="cancel" type="button">Cancel</button></p>
<noscript>This page needs JavaScript.</noscript>
<script type="module" src="${escaped(base)}/openid/sign-in.js" data-base="${escaped(base)}" data-interaction="${escaped(view.interaction)}" id="script"></script>`;
  return Reply.text(page(title, inside), 'text/html; charset=utf-8', 200, {
    'content-security-policy': scriptedPolicy,
    'cache-control': 'no-store',
  });
}

/** What a browser sees when its sign-in is over or is none of its own. */
export const brokenPage = (text: string): Reply =>
  Reply.text(
    page('This sign-in cannot go on', `<p role="alert">${escaped(text)}</p>`),
    'text/html; charset=utf-8',
    400,
    { 'content-security-policy': openidPolicy, 'cache-control': 'no-store' },
  );

let script: string | undefined;

/** The program of the page; read when it is first asked for. */
export function signInScript(): string {
  script ??= readFileSync(fileURLToPath(new URL('./sign-in.js', import.meta.url)), 'utf8');
  return script;
}
