/** What helps where the browser has WebGPU and offers no adapter. */
export function adapterHelp(): string {
  const agent = navigator.userAgent;
  if (/Firefox\//.test(agent)) {
    return 'See about:support, "Graphics", for why; a newer graphics driver, or gfx.webgpu.ignore-blocklist in about:config, may help.';
  }
  if (/Chrom(e|ium)\//.test(agent)) {
    const linux = /Linux/.test(agent) ? ' On Linux, also switch on chrome://flags/#enable-vulkan.' : '';
    return `See chrome://gpu for why: switch on graphics acceleration in the settings, or chrome://flags/#enable-unsafe-webgpu where the driver is on the blocklist.${linux}`;
  }
  return 'Graphics acceleration may be switched off, or the graphics driver too old.';
}

/** What helps where a page had a GPU and its browser gives it none any more. */
export function adapterAwayHelp(): string {
  // Chromium blocks pages under which its GPU process has crashed; a reload by the page itself unblocks nothing.
  return 'Reload this page: a browser whose graphics process has crashed gives the GPU back to a page that its user reloads. If that does not help, start the browser again.';
}

/** Why this browser can't compute, and what helps; undefined where it can try. */
export function webgpuHelp(): string | undefined {
  if (!isSecureContext) {
    return `Browsers offer WebGPU to secure pages only, and ${location.origin} is not one: open the page over https, or on the relay's own machine as http://localhost:${location.port}/.`;
  }
  const agent = navigator.userAgent;
  if ('gpu' in navigator) return undefined;
  if (/Firefox\//.test(agent)) {
    return 'This Firefox has no WebGPU switched on: set dom.webgpu.enabled to true in about:config, or use Firefox 141 or later (Windows), 145 or later (Apple silicon), or Chrome.';
  }
  if (/Chrom(e|ium)\//.test(agent)) {
    return 'This browser has no WebGPU: update it to version 113 or later; on Linux, switch on chrome://flags/#enable-unsafe-webgpu and #enable-vulkan.';
  }
  if (/Safari\//.test(agent)) {
    return 'This Safari has no WebGPU: use Safari 26 or later, or switch on WebGPU under Settings, Feature Flags.';
  }
  return 'This browser has no WebGPU: use a current Chrome, Edge, Firefox or Safari.';
}
