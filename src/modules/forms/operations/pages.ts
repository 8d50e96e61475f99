/** The few pages that visitors see without a script. They run none, load nothing, and hold no texts of strangers unescaped. */
import { Reply } from '../../../kernel/operations/operation.ts';

const headers = (formAction: string) => ({
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; form-action ${formAction}; frame-ancestors 'none'; base-uri 'none'`,
});

const entities: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
]);
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => entities.get(character) ?? character);

const page = (title: string, inside: string): string => `<!doctype html>
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
`;

const html = 'text/html; charset=utf-8';

/** Says that something has happened. */
export const messagePage = (title: string, text: string): Reply =>
  Reply.text(page(title, `<p>${escapeHtml(text)}</p>`), html, 200, headers("'none'"));

/** Asks for one click, which sends a POST to the same address: mail scanners follow links, and press no buttons. */
export const confirmPage = (title: string, text: string, button: string): Reply =>
  Reply.text(
    page(
      title,
      `<p>${escapeHtml(text)}</p>\n<form method="post"><button>${escapeHtml(button)}</button></form>`,
    ),
    html,
    200,
    headers("'self'"),
  );
