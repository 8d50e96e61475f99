/** What a template is made of once it is read, and what its text may hold before. */

/** Where a value is looked up: so many blocks further out, then along names. `@` values have their own name. */
export interface Path {
  readonly kind: 'path';
  readonly up: number;
  /** Begins at the value of the block itself (`this.name`), past names that blocks give. */
  readonly own: boolean;
  readonly names: readonly string[];
}

export type Expression =
  | Path
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'lookup'; readonly of: Expression; readonly key: Expression };

export type Node =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'value';
      readonly of: Expression;
      readonly raw: boolean;
      /** It begins an address (`href="{{link}}"`): what would run there as a program is left out. */
      readonly address: boolean;
    }
  | {
      readonly kind: 'choice' | 'each' | 'with';
      readonly of: Expression;
      /** Names for the entry and its key (`as |entry key|`). */
      readonly names: readonly string[];
      /** For `choice`: when it is there; for the others: with what is found. */
      readonly truthy: readonly Node[];
      readonly falsy: readonly Node[];
    }
  | {
      readonly kind: 'partial';
      readonly name: string;
      readonly of: Expression | undefined;
      readonly given: readonly (readonly [name: string, value: Expression])[];
      /** What stands inside `{{#> name}} .. {{/name}}`. */
      readonly block: readonly Node[] | undefined;
    }
  /** `{{> @partial-block}}`: what whoever uses this partial has put into it. */
  | { readonly kind: 'slot' };

/** Thrown for texts that are no templates; the message says where. */
export class TemplateError extends Error {}

/*
 * What a text may hold before the parser sees it. The parser is one for templates of authors, not of strangers: nesting
 * of some thousand blocks takes it minutes. So the text is walked through once, and refused before that.
 */

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
