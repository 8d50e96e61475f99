/** Whether the surfaces are about to close: they still serve, and ask every client to come back on another connection. */
export interface Draining {
  readonly active: boolean;
  begin(): void;
  onBegin(listener: () => void): void;
}

export function createDraining(): Draining {
  const listeners: (() => void)[] = [];
  let active = false;
  return {
    get active() {
      return active;
    },
    begin() {
      if (active) return;
      active = true;
      for (const listener of listeners) listener();
    },
    onBegin: (listener) => void listeners.push(listener),
  };
}
