/** How deep the brackets of a document nest, read from its text, before a parser that recurses sees it. */

/**
 * Answers whether some bracket stands deeper than `most`. Strings and comments count as nothing; text that is no
 * GraphQL may be judged either way, and the parser refuses it anyhow.
 */
export function nestsDeeper(text: string, most: number): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x22: // "
        i = endOfString(text, i);
        break;
      case 0x23: // #
        i = endOfLine(text, i);
        break;
      case 0x28: // (
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > most) return true;
        break;
      case 0x29: // )
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
    }
  }
  return false;
}

function endOfLine(text: string, start: number): number {
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x0a || code === 0x0d) return i;
  }
  return text.length;
}

/** The place of the last quote. A string ends at the line, unless it is a block. */
function endOfString(text: string, start: number): number {
  if (text.startsWith('"""', start)) {
    let end = text.indexOf('"""', start + 3);
    while (end > 0 && text[end - 1] === '\\') end = text.indexOf('"""', end + 3);
    return end < 0 ? text.length : end + 2;
  }
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x5c) i++;
    else if (code === 0x22 || code === 0x0a || code === 0x0d) return i;
  }
  return text.length;
}
