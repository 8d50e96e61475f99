/** Words of others in a terminal: controls could move the cursor of whoever reads them, hide what follows, or look like lines of ours (CWE-150). */

/** Controls, ends of lines, and marks that turn the direction of what follows. */
const controls = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** In one line, with `?` for what nobody would see. */
export const visible = (text: string): string => text.replaceAll(controls, '?');

/** The same with its lines and tabs; all but the first one begin further in. */
export const visibleLines = (text: string): string =>
  text
    .split(/\r?\n/)
    .map((line) => line.split('\t').map(visible).join('\t'))
    .join('\n    ');
