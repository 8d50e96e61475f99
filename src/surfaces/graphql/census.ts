/** What a document holds, whatever the schema. */
import { type DocumentNode, visit } from 'graphql';

/** What decides how a document may be run. */
export interface Census {
  readonly fields: number;
  readonly directives: number;
  /** Some JSON literal holds a variable. */
  readonly variableInLiteral: boolean;
  /** Some field is renamed to what only the specification may name (`__proto__`). */
  readonly oddAlias: boolean;
}

/** Counts what a document holds. */
export function countNodes(ast: DocumentNode): Census {
  let fields = 0;
  let directives = 0;
  let literals = 0;
  let variableInLiteral = false;
  let oddAlias = false;
  const literal = { enter: () => void literals++, leave: () => void literals-- };
  visit(ast, {
    Field(node) {
      fields++;
      oddAlias ||= node.alias?.value.startsWith('__') ?? false;
    },
    Directive: () => void directives++,
    ObjectValue: literal,
    ListValue: literal,
    Variable() {
      variableInLiteral ||= literals > 0;
    },
  });
  return { fields, directives, variableInLiteral, oddAlias };
}
