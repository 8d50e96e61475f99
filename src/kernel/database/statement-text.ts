/** Texts of statements as others may see them. */

/** What a text holds beside words: names in double quotes, texts (also with escapes), comments, numbers. */
const parts =
  /("(?:[^"]|"")*"?)|\be'(?:[^'\\]|''|\\[\s\S])*'?|'(?:[^']|'')*'?|(\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?|--[^\n]*)|(?<![\w$."])\d+(?:\.\d+)?\b/gi;
const dollars = /\$(?:[a-z_]\w*)?\$[\s\S]*$/i;

/** The text with no value in it: no literals, no comments; one in dollar quotes ends what is shown. */
export const withoutValues = (text: string): string =>
  text
    .replace(parts, (part, name?: string, comment?: string) => {
      if (name !== undefined) return name;
      if (comment !== undefined) return '';
      return part.includes("'") ? "'...'" : '?';
    })
    .replace(dollars, '...')
    .replace(/\s+/g, ' ')
    .trim();
