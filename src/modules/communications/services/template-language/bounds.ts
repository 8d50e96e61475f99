/**
 * What a text may hold before the parser sees it. The parser is one for templates of authors, not of strangers: nesting
 * of some thousand blocks takes it minutes. So the text is walked through once, and refused before that.
 */
import { TemplateError } from './nodes.ts';

const maxTags = 2000;
const maxTagLength = 500;
export const maxDepth = 20;
/** `{{else if}}` of one block: each is nested in the one before. */
const maxBranches = 30;

const blockOpens = /^~?[#^](?!\s*else\b)/;
const closes = /^~?\//;
const branches = /^~?(?:else\s+\S|\^\s*\S)/;

/** Throws TemplateError. */
export function requireBounded(text: string): void {
  const open: number[] = [];
  let tags = 0;
  for (let at = text.indexOf('{{'); at >= 0; at = text.indexOf('{{', at + 2)) {
    tags += 1;
    if (tags > maxTags) throw new TemplateError(`there are more than ${maxTags} tags`);
    if (text.startsWith('{{{{', at)) throw new TemplateError('{{{{ is not known');
    const inside = text.slice(at + 2, at + 2 + maxTagLength);
    requireShort(inside);
    nest(inside, open);
  }
}

/** `open`: how many branches each block around has so far. */
function nest(inside: string, open: number[]): void {
  if (blockOpens.test(inside)) open.push(0);
  else if (closes.test(inside)) open.pop();
  else if (branches.test(inside) && open.length > 0) open.push((open.pop() ?? 0) + 1);
  if (open.length > maxDepth) throw new TemplateError(`blocks are nested deeper than ${maxDepth}`);
  if ((open.at(-1) ?? 0) > maxBranches)
    throw new TemplateError(`a block has more than ${maxBranches} branches`);
}

function requireShort(inside: string): void {
  // Remarks may be long; they hold nothing that is read.
  if (/^~?!/.test(inside)) return;
  if (inside.length >= maxTagLength && !inside.includes('}}'))
    throw new TemplateError(`a tag is longer than ${maxTagLength} characters, or not closed`);
}
