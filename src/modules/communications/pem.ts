/** PEM as crypto libraries want it, from what consoles hand out. */
export const pemOf = (key: string): string => key.replaceAll('\\n', '\n').trim();
