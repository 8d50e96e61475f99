/** The few pages that people see when an app has none of its own. They run no script and load nothing. */
import { Reply } from '../../../kernel/operations/operation.ts';

/** Nothing of these pages may end up elsewhere: their addresses hold secrets. */
const headers = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' };

const policy = (formAction: string): string =>
  `default-src 'none'; style-src 'unsafe-inline'; form-action ${formAction}; frame-ancestors 'none'; base-uri 'none'`;

const html = (title: string, inside: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem}button{font:inherit;padding:.5rem 1.5rem}</style>
</head>
<body>
<h1>${title}</h1>
${inside}
</body>
</html>
`;

/** Says that something has happened. Both texts are ours, never input. */
export const messagePage = (title: string, text: string): Reply =>
  Reply.text(html(title, `<p>${text}</p>`), 'text/html; charset=utf-8', 200, {
    ...headers,
    'content-security-policy': policy("'none'"),
  });

export interface ConfirmPage {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  /** Where the answer of the button leads on to, if it leads to another site. */
  readonly target?: string | undefined;
}

/** A page with one button, which sends a POST to the same address. All texts are ours, never input. */
export function confirmPage({ title, text, button, target }: ConfirmPage): Reply {
  const inside = `<p>${text}</p>\n<form method="post"><button>${button}</button></form>`;
  // Browsers hold the policy against the redirect behind the form too.
  const formAction = target === undefined ? "'self'" : `'self' ${sourceOf(target)}`;
  return Reply.text(html(title, inside), 'text/html; charset=utf-8', 200, {
    ...headers,
    'content-security-policy': policy(formAction),
  });
}

/** The origin of an address as a policy names it; only the scheme where there is no web origin. */
function sourceOf(address: string): string {
  const { origin, protocol } = new URL(address);
  return origin === 'null' ? protocol : origin;
}
