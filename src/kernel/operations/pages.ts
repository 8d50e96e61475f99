/**
 * The few pages that people see who follow a link of a mail, where no app has pages of its own. They run no script,
 * load nothing, and hold no text unescaped.
 */
import { Reply } from './reply.ts';

const entities: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
]);
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => entities.get(character) ?? character);

/** Nothing of these pages may end up elsewhere: their addresses hold secrets. */
const headersFor = (formAction: string) => ({
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; form-action ${formAction}; frame-ancestors 'none'; base-uri 'none'`,
});

interface Page {
  readonly title: string;
  /** HTML; what is not ours in it is escaped already. */
  readonly inside: string;
  /** Where forms of the page may lead, as a policy names it. */
  readonly formAction?: string;
  readonly status?: number;
}

export const page = ({ title, inside, formAction = "'none'", status = 200 }: Page): Reply =>
  Reply.text(
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem}button{font:inherit;padding:.5rem 1.5rem}</style>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
${inside}
</body>
</html>
`,
    'text/html; charset=utf-8',
    status,
    headersFor(formAction),
  );

/** Says that something has happened, or with another `status` that it has not. */
export const messagePage = (title: string, text: string, status = 200): Reply =>
  page({ title, inside: `<p>${escapeHtml(text)}</p>`, status });

interface ConfirmPage {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  /** Where the answer of the button leads on to, if it leads to another site. */
  readonly target?: string | undefined;
}

/** Asks for one click, which sends a POST to the same address: mail scanners follow links, and press no buttons. */
export const confirmPage = ({ title, text, button, target }: ConfirmPage): Reply =>
  page({
    title,
    inside: `<p>${escapeHtml(text)}</p>\n<form method="post"><button>${escapeHtml(button)}</button></form>`,
    // Browsers hold the policy against the redirect behind the form too.
    formAction: target === undefined ? "'self'" : `'self' ${sourceOf(target)}`,
  });

/** The origin of an address as a policy names it; only the scheme where there is no web origin. */
function sourceOf(address: string): string {
  const { origin, protocol } = new URL(address);
  return origin === 'null' ? protocol : origin;
}

/** A browser that follows a link or sends an HTML form asks for a page first; scripts ask for anything, or for JSON. */
export const prefersPage = (accept = ''): boolean =>
  accept.trim().toLowerCase().startsWith('text/html');
