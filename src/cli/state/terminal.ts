/** Where a command prints and asks, and colours where somebody can see them. */
import { createInterface } from 'node:readline/promises';

export interface Terminal {
  readonly environment: NodeJS.ProcessEnv;
  /** Somebody looks at what is printed. */
  readonly isSeen: boolean;
  print(text: string): void;
  /** Absent where nobody could answer. */
  readonly ask?: (question: string) => Promise<string>;
}

export const processTerminal: Terminal = {
  environment: process.env,
  isSeen: process.stdout.isTTY,
  print: (text) => void process.stdout.write(`${text}\n`),
  ...(process.stdin.isTTY && { ask: askThere }),
};

async function askThere(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}

export type Colour = 'green' | 'yellow' | 'red' | 'grey';
export type Paint = (colour: Colour, text: string) => string;

const codes: Readonly<Record<Colour, number>> = { green: 32, yellow: 33, red: 31, grey: 90 };

/** `wanted` decides; else whoever looks gets colours, unless NO_COLOR is set. */
export function paintFor({ isSeen, environment }: Terminal, wanted: boolean | undefined): Paint {
  const on = wanted ?? (isSeen && !environment.NO_COLOR);
  return on ? (colour, text) => `\u001b[${codes[colour]}m${text}\u001b[0m` : (_colour, text) => text;
}
