/** Names that the GraphQL grammar allows, each used once. */

/** Names of types that mean something already. */
const reserved = ['String', 'Int', 'Float', 'Boolean', 'ID', 'Date', 'Number', 'JSONObject', 'Query', 'Mutation', 'Subscription'];

const legal = /^(?!__)[A-Za-z_]\w*$/;

export const isLegalName = (name: string): boolean => legal.test(name);

/** The nearest name that the grammar allows: what it does not know becomes `_`, and nothing starts with two of them. */
export function legalName(name: string): string {
  const plain = name.replace(/\W/g, '_').replace(/^_{2,}/, '_');
  return isLegalName(plain) ? plain : `_${plain}`;
}

/** Hands out names. Who comes second to a name gets it with a number: `Post2`. */
export interface NamePool {
  take(wanted: string): string;
}

export function createNamePool(taken: readonly string[] = reserved): NamePool {
  const used = new Set(taken);
  return {
    take(wanted) {
      const plain = legalName(wanted);
      let name = plain;
      for (let i = 2; used.has(name); i++) name = `${plain}${i}`;
      used.add(name);
      return name;
    },
  };
}

/** `if-match` becomes `ifMatch`. */
export const camelHeader = (header: string): string => header.replace(/-+(\w?)/g, (_, letter: string) => letter.toUpperCase());

/** For names of types inside types: `Post` and `place` make `PostPlace`. */
export const capitalised = (name: string): string => name.slice(0, 1).toUpperCase() + name.slice(1);
