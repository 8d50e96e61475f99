/** The script that shows forms in pages, and the HTML that calls it. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

let text: string | undefined;

/** Read when it is first asked for. */
export function embedScript(): string {
  text ??= readFileSync(fileURLToPath(new URL('./embed.js', import.meta.url)), 'utf8');
  return text;
}

/** What stands in a page: a place for the form, and the script that fills it. */
export const snippetFor = (clientUrl: string, formId: string): string =>
  `<div data-penstock-form="${formId}"></div>\n<script type="module" src="${clientUrl}/forms/embed.js"></script>`;
