/** The kinds of environment variables: how each reads its text and says what is wrong with it. */
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { StartError } from '../start-error.ts';

/** One variable: what `--help` says about it, and how its text becomes a value. */
export interface Variable<T> {
  readonly name: string;
  readonly description: string;
  /** The default as `--help` shows it; empty when there is none. */
  readonly documentedDefault: string;
  /** @throws StartError that names the variable. */
  read(text: string | undefined): T;
}

const LARGEST_PORT = 65_535;

const wrong = (name: string, what: string, text: string): StartError =>
  new StartError(`${name} must be ${what}, got "${text}"`);

/** What may be shown of a value that is secret or holds a credential: nothing. */
const hidden = (name: string, what: string): StartError =>
  new StartError(`${name} must be ${what}`);

export const port = (name: string, fallback: number, description: string): Variable<number> => ({
  name,
  description,
  documentedDefault: String(fallback),
  read: (text) => (text === undefined ? fallback : readPort(name, text)),
});

/** A port that a negative number switches off. */
export const portOrOff = (
  name: string,
  fallback: number,
  description: string,
): Variable<number> => ({
  name,
  description,
  documentedDefault: String(fallback),
  read: (text) => (text === undefined ? fallback : /^-\d+$/.test(text) ? -1 : readPort(name, text)),
});

export const optionalPort = (name: string, description: string): Variable<number | undefined> => ({
  name,
  description,
  documentedDefault: '',
  read: (text) => (text === undefined ? undefined : readPort(name, text)),
});

function readPort(name: string, text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number > LARGEST_PORT) throw wrong(name, 'a port number', text);
  return number;
}

export const text = (name: string, fallback: string, description: string): Variable<string> => ({
  name,
  description,
  documentedDefault: fallback,
  read: (value) => value ?? fallback,
});

/** A name that has to match a pattern; `what` says so in words. */
export const pattern = (
  name: string,
  fallback: string,
  rule: { what: string; matches: RegExp },
  description: string,
): Variable<string> => ({
  name,
  description,
  documentedDefault: fallback,
  read(value = fallback) {
    if (!rule.matches.test(value)) throw wrong(name, rule.what, value);
    return value;
  },
});

export const optionalText = (name: string, description: string): Variable<string | undefined> => ({
  name,
  description,
  documentedDefault: '',
  read: (value) => value,
});

/** A secret of a least length; never shown. */
export const secret = (
  name: string,
  minLength: number,
  description: string,
): Variable<string | undefined> => ({
  name,
  description,
  documentedDefault: '',
  read(value) {
    if (value !== undefined && value.length < minLength)
      throw hidden(name, `at least ${minLength} characters long`);
    return value;
  },
});

/** An address with one of the given schemes; never shown, it may hold a password. */
export const url = (
  name: string,
  schemes: readonly string[],
  description: string,
): Variable<string | undefined> => ({
  name,
  description,
  documentedDefault: '',
  read(value) {
    if (value === undefined) return undefined;
    const begin = schemes.map((scheme) => `${scheme}://`);
    if (!begin.some((one) => value.startsWith(one)))
      throw hidden(name, `an address that starts with ${begin.join(' or ')}`);
    if (!isWhole(value))
      throw hidden(
        name,
        `a valid address, such as ${begin[0]}host; in a password, write % as %25, and / as %2F`,
      );
    return value;
  },
});

/** PostgreSQL's own may name several hosts, and are read by its driver. */
function isWhole(address: string): boolean {
  if (/^postgres(?:ql)?:/.test(address)) return true;
  try {
    const { username, password } = new URL(address);
    return decodeURIComponent(username + password) !== undefined;
  } catch {
    return false;
  }
}

export const flag = (name: string, fallback: boolean, description: string): Variable<boolean> => ({
  name,
  description,
  documentedDefault: String(fallback),
  read(value) {
    if (value === undefined) return fallback;
    if (value === 'true' || value === '1') return true;
    if (value === 'false' || value === '0') return false;
    throw wrong(name, 'true or false', value);
  },
});

export const oneOf = <const T extends string>(
  name: string,
  choices: readonly [T, ...T[]],
  fallback: NoInfer<T>,
  description: string,
): Variable<T> => ({
  name,
  description: `${description}: ${choices.join(', ')}`,
  documentedDefault: fallback,
  read(value) {
    if (value === undefined) return fallback;
    const choice = choices.find((each) => each === value.toLowerCase());
    if (choice === undefined) throw wrong(name, `one of ${choices.join(', ')}`, value);
    return choice;
  },
});

export const milliseconds = (
  name: string,
  fallback: number,
  description: string,
): Variable<number> => ({
  name,
  description: `${description} (ms)`,
  documentedDefault: String(fallback),
  read(value) {
    if (value === undefined) return fallback;
    if (!/^[1-9]\d{0,8}$/.test(value))
      throw wrong(name, 'a positive number of milliseconds', value);
    return Number(value);
  },
});

export const count = (
  name: string,
  fallback: number,
  [min, max]: readonly [number, number],
  description: string,
): Variable<number> => ({
  name,
  description,
  documentedDefault: String(fallback),
  read(value) {
    if (value === undefined) return fallback;
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < min || number > max)
      throw wrong(name, `a number from ${min} to ${max}`, value);
    return number;
  },
});

/** Like `milliseconds`, and 0 is allowed. `min`: of any other. */
export const millisecondsOrNone = (
  name: string,
  fallback: number,
  description: string,
  min = 1,
): Variable<number> => ({
  ...milliseconds(name, fallback, description),
  read(value) {
    if (value === undefined) return fallback;
    if (!/^\d{1,9}$/.test(value)) throw wrong(name, 'a number of milliseconds', value);
    const number = Number(value);
    if (number > 0 && number < min) throw wrong(name, `0 or at least ${min} milliseconds`, value);
    return number;
  },
});

/** A number of processes: from 1, or `auto` for one per core of the machine. */
export const processes = (name: string, max: number, description: string): Variable<number> => ({
  name,
  description,
  documentedDefault: '1',
  read(value) {
    if (value === undefined) return 1;
    if (value.toLowerCase() === 'auto') return Math.min(max, availableParallelism());
    if (!/^[1-9]\d*$/.test(value) || Number(value) > max)
      throw wrong(name, `a number from 1 to ${max}, or auto`, value);
    return Number(value);
  },
});

const splitList = (value: string | undefined): string[] =>
  (value ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

export const list = (name: string, description: string): Variable<readonly string[]> => ({
  name,
  description,
  documentedDefault: '',
  read: splitList,
});

/** Addresses and CIDR ranges, or a number of hops alone. */
export const proxies = (name: string, description: string): Variable<readonly string[]> => ({
  name,
  description,
  documentedDefault: '',
  read(value) {
    const items = splitList(value);
    const fine =
      items.every(isAddressOrRange) || (items.length === 1 && /^[1-9]\d?$/.test(items[0] ?? ''));
    if (!fine)
      throw wrong(
        name,
        'a comma list of addresses and CIDR ranges, or a number of hops',
        value ?? '',
      );
    return items;
  },
});

function isAddressOrRange(item: string): boolean {
  const [address = '', bits, ...rest] = item.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
  );
}
