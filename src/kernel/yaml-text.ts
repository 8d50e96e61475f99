/** YAML that people read and that loses nothing. Load it when it is asked for: the library is large. */
import { Document, Scalar, visit } from 'yaml';

/** Lines of a text are not wrapped, and what stands twice is written twice. */
const options = { aliasDuplicateObjects: false } as const;

/** A value of JSON as YAML; reading it gives the same value. */
export function yamlText(value: unknown): string {
  const document = new Document(value, options);
  visit(document, { Scalar: (_key, node) => quoteBeginning(node) });
  return document.toString({ lineWidth: 0 });
}

/** A block tells its indentation by its first line: where that begins with blanks, some of them are not read again. */
const beginsBlank = /^\n*[ \t]/;
/** At the beginning of a document it is no part of the text. */
const byteOrderMark = '\ufeff';

function quoteBeginning(node: Scalar): void {
  const { value } = node;
  if (typeof value !== 'string') return;
  const isBlank = value.includes('\n') && beginsBlank.test(value);
  if (isBlank || value.startsWith(byteOrderMark)) node.type = Scalar.QUOTE_DOUBLE;
}
