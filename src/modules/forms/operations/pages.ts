/** What visitors get that is no JSON: the script that shows forms in pages, and the few pages of those who run none. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Reply } from '../../../kernel/operations/operation.ts';

/* The script, and the HTML that calls it. */

let text: string | undefined;

/** Read when it is first asked for. */
export function embedScript(): string {
  text ??= readFileSync(fileURLToPath(new URL('../embed/embed.js', import.meta.url)), 'utf8');
  return text;
}

/** What stands in a page: a place for the form, and the script that fills it. */
export const snippetFor = (clientUrl: string, formId: string): string =>
  `<div data-penstock-form="${formId}"></div>\n<script type="module" src="${clientUrl}/forms/embed.js"></script>`;

/* The pages run no script, load nothing, and hold no texts of strangers unescaped. */

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
